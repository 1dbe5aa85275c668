//! Combinations: all choices of some of several things, in the order in which upstream goes through them.

/// Gives each choice of `size` of `count` things, as places in ascending order, the lowest first, until `each` says no.
pub(in crate::logic::resources) fn each_combination(
    count: usize,
    size: usize,
    each: &mut impl FnMut(&[usize]) -> bool,
) {
    if size == 0 || size > count {
        return;
    }
    let mut chosen: Vec<usize> = (0..size).collect();
    while each(&chosen) {
        // The last place that can still move on; those behind it follow it.
        let Some(place) = (0..size).rev().find(|place| chosen[*place] < count - size + place) else { return };
        chosen[place] += 1;
        for behind in place + 1..size {
            chosen[behind] = chosen[behind - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_comes_once_and_in_order() {
        let all = |count, size| {
            let mut all = Vec::new();
            each_combination(count, size, &mut |chosen| {
                all.push(chosen.to_vec());
                true
            });
            all
        };
        assert_eq!(all(3, 2), [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(all(3, 3), [[0, 1, 2]]);
        assert_eq!(all(3, 0), Vec::<Vec<usize>>::new());
        assert_eq!(all(3, 4), Vec::<Vec<usize>>::new());
        let many = all(8, 4);
        assert_eq!(many.len(), 70);
        assert!(many.is_sorted() && many.windows(2).all(|two| two[0] != two[1]));
    }
}
