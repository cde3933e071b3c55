//! How an update walks over the groups: which groups are replaced next, and how many there are
//! meanwhile.
//!
//! Leaders are pods of one StatefulSet, so that all there is to decide is its partition, which only
//! ever goes down, and its replicas, of which there may be more while others are replaced.
//!
//! Upstream: kubernetes-sigs/lws, pkg/controllers/leaderworkerset_controller.go

use super::spec::Rollout;

/// What the StatefulSet of the leaders is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub partition: i64,
    pub replicas: i64,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaders {
    pub partition: i64,
    pub replicas: i64,
    /// How many replicas the set asked for when it was last written.
    pub asked: Option<i64>,
}

/// How a group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub is_ready: bool,
    /// Whether it is of the revision that the set is of.
    pub is_updated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// The leaders are not told of it yet.
    Changed,
    Known,
}

/// The next step. `groups` are those that the leaders stand for, by their index.
pub fn next(
    (replicas, rollout): (i64, &Rollout),
    leaders: Option<&Leaders>,
    template: Template,
    groups: &[Group],
) -> Step {
    let mut step = unbounded((replicas, rollout), leaders, template, groups);
    step.partition = step.partition.max(rollout.partition);
    step
}

fn unbounded(
    (replicas, rollout): (i64, &Rollout),
    leaders: Option<&Leaders>,
    template: Template,
    groups: &[Group],
) -> Step {
    let Some(leaders) = leaders else { return Step { partition: 0, replicas } };
    let burst = replicas + rollout.surge_max;
    if template == Template::Changed {
        let partition = replicas.min(leaders.replicas);
        // More groups come first, and what was there goes on unchanged meanwhile.
        let is_growing = leaders.replicas < replicas;
        let replicas = if is_growing { replicas } else { want(replicas, rollout, replicas) };
        return Step { partition, replicas };
    }
    if leaders.partition == 0 && leaders.replicas == replicas {
        return Step { partition: 0, replicas };
    }
    if leaders.replicas < replicas {
        return Step { partition: leaders.partition, replicas };
    }
    let wanted = want(replicas, rollout, unready(groups, replicas));
    if leaders.asked.is_some_and(|asked| asked != replicas) {
        return Step { partition: leaders.partition.min(burst), replicas: wanted };
    }
    let missing = burst - leaders.replicas;
    let width = rollout.unavailable_max + rollout.surge_max - missing;
    let partition = partition(groups, leaders, width);
    Step { partition, replicas: wanted }
}

/// How many groups there are to be while so many are not as they should be: those beyond what was
/// asked for go one by one as they are not needed any more.
fn want(replicas: i64, rollout: &Rollout, unready: i64) -> i64 {
    if unready <= rollout.surge_max {
        replicas + (unready - rollout.unavailable_max).max(0)
    } else {
        replicas + rollout.surge_max
    }
}

fn unready(groups: &[Group], replicas: i64) -> i64 {
    let group = |index: i64| at(groups, index);
    let unready = (0..replicas).filter(|index| {
        let group = group(*index);
        !(group.is_ready && group.is_updated)
    });
    i64::try_from(unready.count()).unwrap_or(i64::MAX)
}

fn partition(groups: &[Group], leaders: &Leaders, width: i64) -> i64 {
    let tail = groups.iter().rev().take_while(|group| group.is_ready && group.is_updated);
    let tail = i64::try_from(tail.count()).unwrap_or(i64::MAX);
    let base = (leaders.replicas - tail - width).max(0);
    let unavailable = (0..base).filter(|index| !at(groups, *index).is_ready).count();
    let mut partition = base + i64::try_from(unavailable).unwrap_or(i64::MAX);
    // What does not serve anyway is replaced at no cost.
    let mut index = partition.min(leaders.replicas - 1);
    while index >= base {
        let group = at(groups, index);
        if group.is_ready && !group.is_updated {
            break;
        }
        partition = index;
        index -= 1;
    }
    partition.min(leaders.partition)
}

fn at(groups: &[Group], index: i64) -> Group {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    groups.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Group = Group { is_ready: true, is_updated: false };
    const NEW: Group = Group { is_ready: true, is_updated: true };
    const STARTING: Group = Group { is_ready: false, is_updated: true };
    const BROKEN: Group = Group { is_ready: false, is_updated: false };

    fn rollout(unavailable_max: i64, surge_max: i64) -> Rollout {
        Rollout { partition: 0, unavailable_max, surge_max }
    }

    fn leaders(partition: i64, replicas: i64) -> Leaders {
        Leaders { partition, replicas, asked: Some(4) }
    }

    /// The next step of a set of four, as `(partition, replicas)`.
    fn step(rollout: Rollout, leaders: Leaders, groups: &[Group]) -> (i64, i64) {
        let step = next((4, &rollout), Some(&leaders), Template::Known, groups);
        (step.partition, step.replicas)
    }

    #[test]
    fn a_set_that_is_new_or_as_it_should_be_has_nothing_to_walk_over() {
        let new = next((4, &rollout(1, 0)), None, Template::Known, &[]);
        assert_eq!(new, Step { partition: 0, replicas: 4 });
        assert_eq!(step(rollout(1, 0), leaders(0, 4), &[NEW; 4]), (0, 4));
        assert_eq!(step(rollout(1, 0), leaders(0, 2), &[NEW; 2]), (0, 4));
        let held = Rollout { partition: 3, ..rollout(1, 0) };
        assert_eq!(step(held, leaders(0, 4), &[NEW; 4]), (3, 4));
    }

    #[test]
    fn a_changed_template_reaches_nobody_at_first() {
        let first = |rollout: Rollout, replicas: i64| {
            let step =
                next((4, &rollout), Some(&leaders(0, replicas)), Template::Changed, &[OLD; 4]);
            (step.partition, step.replicas)
        };
        assert_eq!(first(rollout(1, 0), 4), (4, 4));
        assert_eq!(first(rollout(1, 2), 4), (4, 6));
        assert_eq!(first(rollout(1, 4), 4), (4, 7));
        assert_eq!(first(rollout(1, 0), 2), (2, 4));
        assert_eq!(first(rollout(1, 0), 6), (4, 4));
    }

    #[test]
    fn groups_are_replaced_from_the_last_one_by_one() {
        let one = rollout(1, 0);
        let steps = [
            (4, [OLD, OLD, OLD, OLD], 3),
            (3, [OLD, OLD, OLD, STARTING], 3),
            (3, [OLD, OLD, OLD, NEW], 2),
            (2, [OLD, OLD, STARTING, NEW], 2),
            (2, [OLD, OLD, NEW, NEW], 1),
            (1, [OLD, NEW, NEW, NEW], 0),
            (0, [NEW, NEW, NEW, NEW], 0),
        ];
        for (before, groups, after) in steps {
            assert_eq!(step(one, leaders(before, 4), &groups), (after, 4), "{groups:?}");
        }
    }

    #[test]
    fn more_groups_stand_in_for_those_that_are_replaced() {
        let both = rollout(2, 2);
        let steps = [
            (leaders(4, 6), [OLD, OLD, OLD, OLD, STARTING, STARTING], (2, 6)),
            (leaders(2, 6), [OLD, OLD, STARTING, STARTING, STARTING, NEW], (1, 6)),
            (leaders(1, 6), [OLD, STARTING, NEW, NEW, NEW, NEW], (0, 4)),
        ];
        for (leaders, groups, expected) in steps {
            assert_eq!(step(both, leaders, &groups), expected, "{groups:?}");
        }
        let one_by_one = rollout(0, 1);
        let steps = [
            (leaders(4, 5), [OLD, OLD, OLD, OLD, STARTING], (4, 5)),
            (leaders(4, 5), [OLD, OLD, OLD, OLD, NEW], (3, 5)),
            (leaders(3, 5), [OLD, OLD, OLD, STARTING, NEW], (3, 5)),
            (leaders(1, 5), [OLD, NEW, NEW, NEW, NEW], (0, 5)),
            (leaders(0, 5), [STARTING, NEW, NEW, NEW, NEW], (0, 5)),
            (leaders(0, 5), [NEW, NEW, NEW, NEW, NEW], (0, 4)),
        ];
        for (leaders, groups, expected) in steps {
            assert_eq!(step(one_by_one, leaders, &groups), expected, "{groups:?}");
        }
    }

    #[test]
    fn what_is_broken_does_not_hold_up_the_update_and_is_not_joined_by_others() {
        let one = rollout(1, 0);
        // The first is broken already: nobody who serves may go.
        assert_eq!(step(one, leaders(4, 4), &[BROKEN, OLD, OLD, OLD]), (4, 4));
        // The last is broken: it is replaced, and costs nothing.
        assert_eq!(step(one, leaders(4, 4), &[OLD, OLD, OLD, BROKEN]), (3, 4));
        assert_eq!(step(one, leaders(4, 4), &[BROKEN; 4]), (3, 4));
    }

    #[test]
    fn a_set_that_is_resized_on_the_way_goes_on_from_where_it_is() {
        let resized = Leaders { asked: Some(6), ..leaders(5, 6) };
        let groups = [OLD, OLD, OLD, OLD, OLD, NEW];
        assert_eq!(step(rollout(1, 0), resized, &groups), (4, 4));
    }

    #[test]
    fn groups_below_the_partition_are_left_alone() {
        let held = Rollout { partition: 2, ..rollout(1, 0) };
        let groups = [OLD, OLD, NEW, NEW];
        assert_eq!(step(held, leaders(2, 4), &groups), (2, 4));
    }
}
