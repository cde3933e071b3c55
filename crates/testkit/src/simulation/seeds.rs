//! What a seed means, and the seeds that once failed.
//!
//! A seed names a world and a plan in it: `world * 10000 + plan`. Plan 0 is no fault; from 5000 on
//! a plan is two faults drawn by chance.

use super::plans::Candidate;
use crate::faults::Planned;
use crate::world::World;

/// How many plans a world can have.
const PLANS_MAX: u64 = 10_000;
/// Where plans of two faults begin.
pub const PAIRS: u64 = 5_000;

/// Plans that are tried again on every run: `scenario: plan`, or `scenario: plan and plan`.
const KEPT: &str = include_str!("../../../../sim/seeds.txt");

pub fn of(world: u64, plan: u64) -> u64 {
    world * PLANS_MAX + plan
}

pub fn world(seed: u64) -> u64 {
    seed / PLANS_MAX
}

/// The plan of a seed, given those that the reference of its world offers.
pub fn planned(seed: u64, candidates: &[Candidate]) -> Vec<Planned> {
    match seed % PLANS_MAX {
        0 => Vec::new(),
        plan if plan < PAIRS => {
            let at = usize::try_from(plan - 1).unwrap_or(usize::MAX);
            candidates.get(at).map(|one| one.planned.clone()).into_iter().collect()
        }
        _ => {
            let mut chance = seed;
            let mut draw = || {
                let at = World::mix(&mut chance) % candidates.len().max(1) as u64;
                candidates.get(usize::try_from(at).unwrap_or(0)).map(|one| one.planned.clone())
            };
            let mut pair: Vec<Planned> = [draw(), draw()].into_iter().flatten().collect();
            // One request has one fate.
            pair.dedup_by(|a, b| a.sort == b.sort && a.number == b.number);
            pair
        }
    }
}

/// The plans that are kept for a scenario, of one fault or of several.
pub fn kept(scenario: &str) -> Vec<Vec<Planned>> {
    let lines = KEPT.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let of_scenario = lines.filter_map(|line| line.rsplit_once(": "));
    let of_scenario = of_scenario.filter(|(name, _)| *name == scenario);
    of_scenario.map(|(_, plan)| read(plan).expect("sim/seeds.txt must be readable")).collect()
}

fn read(plan: &str) -> Result<Vec<Planned>, String> {
    plan.split(" and ").map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Fault, Sort};

    #[test]
    fn a_seed_names_a_world_and_a_plan() {
        let sort = Sort { method: "POST".to_owned(), route: "/api/v1/pods".to_owned() };
        let candidate = |number| Candidate {
            planned: Planned { sort: sort.clone(), number, fault: Fault::Twice },
            is_sample: true,
        };
        let candidates: Vec<Candidate> = (0..9).map(candidate).collect();
        assert_eq!(world(of(3, 7)), 3);
        assert!(planned(of(3, 0), &candidates).is_empty());
        assert_eq!(planned(of(3, 7), &candidates), [candidate(6).planned]);
        let pair = planned(of(3, PAIRS + 1), &candidates);
        assert!((1..=2).contains(&pair.len()));
        assert_eq!(pair, planned(of(3, PAIRS + 1), &candidates));
    }

    #[test]
    fn every_kept_plan_can_be_read() {
        let lines = KEPT.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        for line in lines {
            let (scenario, plan) = line.rsplit_once(": ").expect(line);
            assert!(!scenario.is_empty() && read(plan).is_ok(), "{line}");
        }
    }
}
