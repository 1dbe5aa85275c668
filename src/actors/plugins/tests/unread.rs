//! Files `vol_data.json` that nobody can read, as a loss of power leaves them: each costs its own volume alone.

use super::*;

impl Setup {
    /// A pod of which only the folder of this volume is left, with such a file.
    fn leave_unread(&self, volume: &str) -> PathBuf {
        let folder = self.path(&format!("pods/left/volumes/kubernetes.io~csi/{volume}"));
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("vol_data.json"), "").expect("written");
        folder
    }

    fn unstaged(&self) -> usize {
        self.driver.calls().iter().filter(|call| call.starts_with("NodeUnstage")).count()
    }
}

/// VOL-10, VOL-45.
#[tokio::test]
async fn vol_45_a_file_that_cannot_be_read_holds_up_no_other_volume() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    setup.put_volume(&json!({ "accessModes": ["ReadWriteOncePod"] }));
    setup.leave_unread("pv-other");
    setup.ensure(&pod("one")).await.expect("mounted, though nobody can tell which volume the other pod has");
    setup.release("one").await;
    setup.eventually("it is unstaged", || !setup.staging().exists()).await;
}

/// VOL-10, VOL-45: the folder's name still says which volume it is.
#[tokio::test]
async fn vol_45_a_volume_whose_file_cannot_be_read_counts_as_used() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    setup.put_volume(&json!({}));
    setup.ensure(&pod("one")).await.expect("mounted");
    let left = setup.leave_unread("pv-1");
    setup.release("one").await;
    setup.put_volume(&json!({ "accessModes": ["ReadWriteOncePod"] }));
    let failure = setup.ensure(&pod("two")).await.expect_err("the other pod has it");
    assert!(failure.message.contains("is already in use by another pod"), "{}", failure.message);
    setup.release("two").await;
    assert_eq!((setup.unstaged(), setup.staging().exists()), (0, true), "it may be in use");
    fs::remove_dir_all(left).expect("removed");
    setup.ensure(&pod("two")).await.expect("mounted");
    setup.release("two").await;
    setup.eventually("it is unstaged", || !setup.staging().exists()).await;
}

/// VOL-45: a volume that another agent staged has no name of a persistent volume, and may be that of the file.
#[tokio::test]
async fn vol_45_a_staged_volume_without_a_name_waits_for_what_cannot_be_read() {
    let Some(setup) = Setup::new() else { return };
    let _serving = setup.serve().await;
    setup.put_volume(&json!({}));
    setup.ensure(&pod("one")).await.expect("mounted");
    let note = setup.staging().with_file_name("vol_data.json");
    fs::write(&note, r#"{"driverName":"drv.test","volumeHandle":"h-1"}"#).expect("written");
    let left = setup.leave_unread("pv-other");
    setup.release("one").await;
    setup.ensure(&pod("two")).await.expect("mounted");
    setup.release("two").await;
    assert_eq!((setup.unstaged(), setup.staging().exists()), (0, true), "it may be in use");
    fs::remove_dir_all(left).expect("removed");
    setup.ensure(&pod("two")).await.expect("mounted");
    setup.release("two").await;
    setup.eventually("it is unstaged", || !setup.staging().exists()).await;
}
