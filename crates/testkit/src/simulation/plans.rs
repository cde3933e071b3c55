//! Which faults a trace offers.
//!
//! Every write can be lost, repeated, refused or the last deed of a life; every event can be the
//! one that is missed; every two events of one object can be the ones between which time stands
//! still. What only repeats a class (the same fault at the same sort and shape) comes last.

use std::collections::{BTreeMap, BTreeSet};

use super::run::Run;
use crate::faults::{Fault, Planned, Sort};
use crate::record::{Event, Made};

/// How long a fault lasts that is to last: longer than the longest delay between tries.
const LASTING_SECONDS: u64 = 1_200;
/// How long a component stands still: longer than its lease.
const PAUSE_SECONDS: u64 = 60;
const JUMP_SECONDS: u64 = 3_600;
const DELAY_SECONDS: u64 = 20;
const LAG_SECONDS: u64 = 2;
/// How long events are withheld at most.
const HOLD_SECONDS_MAX: u64 = 1_800;

/// A plan, and whether it stands for its class where not all are run.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub planned: Planned,
    pub is_sample: bool,
}

impl Candidate {
    /// Where nobody leads, who stands still has no rival.
    pub fn without_rival(&mut self) {
        if let Fault::Pause(seconds) = self.planned.fault {
            self.planned.fault = Fault::Stall(seconds);
        }
    }
}

/// Every plan of a trace, one fault each.
pub fn plans(reference: &Run) -> Vec<Candidate> {
    let mut planned: Vec<(Planned, String)> = Vec::new();
    for made in reference.made.iter().filter(|made| made.is_write()) {
        of_write(made, &mut planned);
    }
    of_events(&reference.events, &mut planned);
    let lag = Sort { method: "WATCH".to_owned(), route: "*".to_owned() };
    let lag = Planned { sort: lag, number: 0, fault: Fault::Lag(LAG_SECONDS) };
    planned.push((lag, String::new()));
    sampled(planned)
}

/// The first of each class stands for it. What nothing comes after is another matter, so of some
/// faults the last does as well.
fn sampled(planned: Vec<(Planned, String)>) -> Vec<Candidate> {
    let class_of = |(planned, class): &(Planned, String)| {
        (planned.sort.clone(), name_of(planned.fault), class.clone())
    };
    let mut first = BTreeMap::new();
    let mut last = BTreeMap::new();
    for (at, one) in planned.iter().enumerate() {
        first.entry(class_of(one)).or_insert(at);
        if matches!(one.0.fault, Fault::LoseRequest | Fault::CrashBefore) {
            last.insert(class_of(one), at);
        }
    }
    let chosen: BTreeSet<usize> = first.into_values().chain(last.into_values()).collect();
    let candidate = |(at, (planned, _))| Candidate { planned, is_sample: chosen.contains(&at) };
    planned.into_iter().enumerate().map(candidate).collect()
}

/// The fault without its revision or time, which say where and not what.
fn name_of(fault: Fault) -> String {
    let text = format!("{fault:?}");
    match fault {
        Fault::Refuse(_) => text,
        _ => text.split('(').next().unwrap_or_default().to_owned(),
    }
}

fn of_write(made: &Made, planned: &mut Vec<(Planned, String)>) {
    let some = [Fault::CrashBefore, Fault::LoseAnswer];
    let all = [
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::CrashThen,
        Fault::LoseAnswer,
        Fault::Twice,
        Fault::LoseRequest,
        Fault::Delay(DELAY_SECONDS),
        Fault::Refuse(409),
        Fault::Refuse(429),
        Fault::Refuse(500),
        Fault::Refuse(503),
        Fault::Refuse(504),
        Fault::RefuseLong(500, LASTING_SECONDS),
        Fault::Pause(PAUSE_SECONDS),
        Fault::Forward(JUMP_SECONDS),
        Fault::Back(JUMP_SECONDS),
    ];
    // Nothing rests on a notice, so two faults of the first will do.
    let faults: &[Fault] = match made.is_notice() {
        true if made.number > 0 => &[],
        true => &some,
        false => &all,
    };
    for fault in faults {
        let (sort, number) = (made.sort.clone(), made.number);
        planned.push((Planned { sort, number, fault: *fault }, String::new()));
    }
}

/// Events that the first life of the component saw: later ones cannot be counted beforehand.
fn of_events(events: &[Event], planned: &mut Vec<(Planned, String)>) {
    let mut last: BTreeMap<(&Sort, &str), &Event> = BTreeMap::new();
    for event in events {
        let at = |event: &Event, fault| {
            let (sort, number) = (event.sort.clone(), event.number);
            Planned { sort, number, fault }
        };
        for fault in [Fault::Cut, Fault::CutMidway, Fault::Gone] {
            planned.push((at(event, fault), event.kind.clone()));
        }
        let before = last.insert((&event.sort, &event.name), event);
        let Some(before) = before else { continue };
        let class = format!("{} {}", before.kind, event.kind);
        let between = event.at.saturating_sub(before.at).as_secs() + 1;
        let seconds = between.min(HOLD_SECONDS_MAX);
        for fault in [Fault::Hold(seconds), Fault::Skip(seconds)] {
            planned.push((at(before, fault), class.clone()));
        }
        for fault in [Fault::Bounce(before.revision), Fault::Travel(before.revision)] {
            planned.push((at(event, fault), class.clone()));
        }
    }
}
