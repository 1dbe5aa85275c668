//! How `EvictionManager` hears of kills that came before any eviction (RES-61).

use std::sync::Arc;
use std::time::Duration;

use super::EvictionManager;
use crate::actors::kit::address::{Address, TellError};
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::logic::events::reasons::EventReason;
use crate::logic::eviction::oom_kill::{OomReader, SystemOomKill};
use crate::messages::Lost;
use crate::messages::event_recorder::EventSubject;
use crate::messages::eviction_manager::{EvictionManagerMsg, EvictionWait, KernelNews};
use crate::platform::host::kernel_log::{KernelLog, KernelLogError};

/// Older kills were news for an earlier run of the agent. The last run may have been the victim.
const AGE_MAX: Duration = Duration::from_secs(300);
/// Wait before a log that cannot be read is opened again.
const RETRY: Duration = Duration::from_secs(300);
/// Wait before the actor, which had no room, hears of a kill again.
const TELL_AGAIN: Duration = Duration::from_millis(100);

impl EvictionManager {
    pub(super) fn follow_kernel_log(&mut self, context: &mut Context<EvictionManagerMsg>) {
        let (log, me) = (Arc::clone(&self.args.kernel_log), context.address().clone());
        let work = async move { follow(&*log, &me).await };
        context.start("follow kernel log", "out-of-memory kills", work, |why| {
            EvictionManagerMsg::Kernel(KernelNews::LogEnded(why))
        });
    }

    pub(super) fn take_kernel_news(&mut self, news: KernelNews, context: &mut Context<EvictionManagerMsg>) {
        match news {
            KernelNews::OomKilled(kill) => self.tell_oom_kill(&kill, context),
            KernelNews::LogEnded(why) => kernel_log_ended(why, context),
        }
    }

    fn tell_oom_kill(&self, kill: &SystemOomKill, context: &Context<EvictionManagerMsg>) {
        tracing::warn!(%kill, "the machine ran out of memory");
        let node = EventSubject::node(&self.args.settings.node_name);
        context.tell(&self.args.event_recorder, node.warning(EventReason::SystemOOM, kill.to_string()));
    }
}

fn kernel_log_ended(why: Result<KernelLogError, Lost>, context: &mut Context<EvictionManagerMsg>) {
    let error = why.map_or_else(|loss| loss.to_string(), |error| error.to_string());
    tracing::warn!(error, "nobody hears of out-of-memory kills of the machine");
    context.after(RETRY, EvictionManagerMsg::Due(EvictionWait::KernelLogDue));
}

/// Tells the actor of each kill. Ends when the log cannot be read.
async fn follow(log: &dyn KernelLog, me: &Address<EvictionManagerMsg>) -> KernelLogError {
    let mut reader = OomReader::default();
    loop {
        let lines = match log.next().await {
            Ok(lines) => lines,
            Err(error) => return error,
        };
        for line in lines.into_iter().filter(|line| line.is_kernels && line.age < AGE_MAX) {
            let Some(kill) = reader.take(&line.text) else { continue };
            let tell =
                || me.tell(Cause::outside("kernel"), EvictionManagerMsg::Kernel(KernelNews::OomKilled(kill.clone())));
            while tell() == Err(TellError::Full) {
                tokio::time::sleep(TELL_AGAIN).await;
            }
        }
    }
}
