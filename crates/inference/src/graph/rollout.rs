//! How workers of one form give way to those of another, without fewer serving than may be.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/
//! dgd_worker_rollout_reconciler.go

use std::collections::BTreeMap;

use serde_json::Value;

/// The replicas of one component in one form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// The name of its object.
    pub name: String,
    /// When it was made, for the order among the old.
    pub created: String,
    pub replicas: i64,
    pub available: i64,
    pub ready: i64,
    /// It does as it is asked, and nothing of it is left.
    pub is_drained: bool,
}

/// How many may be too many and too few meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Rolling {
        surge: i64,
        unavailable: i64,
    },
    /// The old go first, all of them.
    Recreate,
}

impl Pace {
    /// As a strategy of a Deployment says it.
    pub fn of(strategy: &Value, desired: i64) -> Pace {
        if strategy["type"] == "Recreate" {
            return Pace::Recreate;
        }
        let rolling = &strategy["rollingUpdate"];
        let surge = amount(&rolling["maxSurge"], desired, Round::Up);
        let unavailable = amount(&rolling["maxUnavailable"], desired, Round::Down);
        match (surge, unavailable) {
            (0, 0) => Pace::Rolling { surge: 1, unavailable: 0 },
            (surge, unavailable) => Pace::Rolling { surge, unavailable },
        }
    }
}

/// Replicas that an object can ask for.
const AMOUNT_MAX: i64 = i32::MAX as i64;

#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
}

/// A number, or a share of what is desired. No component has more, whatever users say.
fn amount(said: &Value, desired: i64, round: Round) -> i64 {
    if let Some(number) = said.as_i64() {
        return number.clamp(0, AMOUNT_MAX);
    }
    let percent = said.as_str().and_then(|text| text.strip_suffix('%'));
    let percent: i64 = percent.and_then(|text| text.parse().ok()).unwrap_or(25).max(0);
    let hundredths = percent.saturating_mul(desired.max(0));
    let amount = match round {
        Round::Up => hundredths.saturating_add(99) / 100,
        Round::Down => hundredths / 100,
    };
    amount.min(AMOUNT_MAX)
}

/// How many replicas each form is to have next.
#[derive(Debug, PartialEq, Eq)]
pub struct Targets {
    pub new: i64,
    /// By the names of the objects.
    pub old: BTreeMap<String, i64>,
}

pub fn targets(desired: i64, pace: Pace, old: &[Generation], new: &Generation) -> Targets {
    let Pace::Rolling { surge, unavailable } = pace else {
        let is_drained = old.iter().all(|one| one.is_drained);
        let stopped = old.iter().map(|one| (one.name.clone(), 0)).collect();
        return Targets { new: if is_drained { desired } else { 0 }, old: stopped };
    };
    let sum = |of: fn(&Generation) -> i64| old.iter().map(of).sum::<i64>();
    let (old_replicas, old_available) = (sum(|one| one.replicas), sum(|one| one.available));
    let available_min = desired - unavailable;
    let new_unavailable = (new.replicas - new.available).max(0);
    let down_max = (old_replicas + new.replicas - available_min - new_unavailable).max(0);
    let old_unhealthy = (old_replicas - old_available).max(0);
    let surplus = (old_available + new.available - available_min).max(0);
    let old_target = (old_replicas - down_max.min(old_unhealthy + surplus)).max(0);
    let room = (desired + surge - old_replicas - new.replicas).max(0);
    Targets { new: desired.min(new.replicas + room), old: share(old_target, old) }
}

/// Shares replicas among the old: those that serve keep theirs, the oldest lose first, the newest
/// are given back first.
fn share(target: i64, old: &[Generation]) -> BTreeMap<String, i64> {
    let mut by_age: Vec<&Generation> = old.iter().collect();
    by_age.sort_by(|one, other| (&one.created, &one.name).cmp(&(&other.created, &other.name)));
    let serving = |one: &&Generation| (one.name.clone(), one.replicas.min(one.available).max(0));
    let mut shares: BTreeMap<String, i64> = by_age.iter().map(serving).collect();
    let mut excess = shares.values().sum::<i64>() - target;
    for one in &by_age {
        let Some(share) = shares.get_mut(&one.name) else { continue };
        let taken = excess.clamp(0, *share);
        *share -= taken;
        excess -= taken;
    }
    for one in by_age.iter().rev() {
        let Some(share) = shares.get_mut(&one.name) else { continue };
        let given = (-excess).clamp(0, (one.replicas - *share).max(0));
        *share += given;
        excess += given;
    }
    shares
}

/// Whether a component has been replaced.
pub fn is_updated(desired: i64, pace: Pace, old: &[Generation], new: &Generation) -> bool {
    let is_over = |one: &Generation| match pace {
        Pace::Rolling { .. } => one.ready == 0 && one.replicas == 0,
        Pace::Recreate => one.is_drained,
    };
    new.ready >= desired && old.iter().all(is_over)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn one(name: &str, replicas: i64, available: i64) -> Generation {
        let (name, created) = (name.to_owned(), name.to_owned());
        Generation { name, created, replicas, available, ready: available, is_drained: false }
    }

    #[test]
    fn the_worked_example_goes_step_by_step() {
        let strategy = json!({"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
        let pace = Pace::of(&strategy, 4);
        assert_eq!(pace, Pace::Rolling { surge: 1, unavailable: 1 });
        for (old, new, targets_old, target_new) in [
            ((4, 4), (0, 0), 3, 1),
            ((3, 3), (1, 0), 3, 2),
            ((3, 3), (2, 0), 3, 2),
            ((3, 3), (2, 2), 1, 2),
            ((1, 1), (2, 2), 1, 4),
            ((1, 1), (4, 4), 0, 4),
        ] {
            let made = targets(4, pace, &[one("o", old.0, old.1)], &one("n", new.0, new.1));
            let found = (made.old["o"], made.new);
            assert_eq!(found, (targets_old, target_new), "{old:?} {new:?}");
        }
        let over = [one("o", 0, 0)];
        assert!(is_updated(4, pace, &over, &one("n", 4, 4)));
        assert!(!is_updated(4, pace, &[one("o", 1, 1)], &one("n", 4, 4)));
    }

    #[test]
    fn of_many_old_the_oldest_goes_first() {
        let pace = Pace::Rolling { surge: 1, unavailable: 1 };
        let old = [one("a", 2, 2), one("b", 2, 2)];
        let made = targets(4, pace, &old, &one("n", 0, 0));
        assert_eq!(made.old, BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
        // What does not serve is given up before what does.
        let old = [one("a", 2, 2), one("b", 2, 0)];
        let made = targets(4, pace, &old, &one("n", 1, 0));
        assert_eq!(made.old, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]));
    }

    #[test]
    fn recreated_workers_wait_until_nothing_is_left_of_the_old() {
        let mut old = one("o", 3, 3);
        let made = targets(3, Pace::Recreate, &[old.clone()], &one("n", 0, 0));
        assert_eq!((made.old["o"], made.new), (0, 0));
        old.is_drained = true;
        assert_eq!(targets(3, Pace::Recreate, &[old], &one("n", 0, 0)).new, 3);
    }

    #[test]
    fn shares_are_rounded_and_never_both_nothing() {
        let pace = |surge: Value, down: Value, desired| {
            Pace::of(
                &json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": down}}),
                desired,
            )
        };
        let rolling = |surge, unavailable| Pace::Rolling { surge, unavailable };
        assert_eq!(pace(json!("25%"), json!("25%"), 2), rolling(1, 0));
        assert_eq!(pace(json!(0), json!(0), 5), rolling(1, 0));
        assert_eq!(pace(json!(2), json!("50%"), 5), rolling(2, 2));
        assert_eq!(Pace::of(&json!({"type": "Recreate"}), 3), Pace::Recreate);
        // What nobody can mean leads to numbers that can be reckoned with.
        let most = pace(json!(i64::MAX), json!(format!("{}%", i64::MAX)), 5);
        assert_eq!(most, rolling(AMOUNT_MAX, AMOUNT_MAX));
        assert_eq!(targets(5, most, &[one("o", 5, 5)], &one("n", 0, 0)).new, 5);
        assert_eq!(pace(json!(-1), json!("-1%"), 5), rolling(1, 0));
    }

    proptest! {
        /// Played to its end by pods that may be slow: never fewer serve than may, never more run
        /// than may, and it ends.
        #[test]
        fn a_rollout_keeps_its_bounds_and_ends(
            desired in 1_i64..12,
            surge in 0_i64..4,
            unavailable in 0_i64..4,
            slow in proptest::collection::vec(any::<bool>(), 300),
        ) {
            let surge = if surge == 0 && unavailable == 0 { 1 } else { surge };
            let pace = Pace::Rolling { surge, unavailable };
            let (mut old, mut new) = (one("o", desired, desired), one("n", 0, 0));
            let mut is_done = false;
            for is_slow in slow {
                let made = targets(desired, pace, &[old.clone()], &new);
                new.replicas = made.new;
                old.replicas = made.old["o"];
                old.available = old.available.min(old.replicas);
                old.ready = old.available;
                let serving = old.available + new.available;
                prop_assert!(serving >= desired - unavailable, "{serving} serve");
                prop_assert!(old.replicas + new.replicas <= desired + surge);
                if !is_slow && new.available < new.replicas {
                    new.available += 1;
                }
                new.ready = new.available;
                is_done = is_updated(desired, pace, &[old.clone()], &new);
                if is_done {
                    break;
                }
            }
            prop_assert!(is_done);
        }
    }
}
