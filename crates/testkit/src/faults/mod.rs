//! What can happen on the way between a component and the server, as data.
//!
//! A fault is chosen by the number of a request or of an event among those of its sort, so that a
//! plan made from one run hits the same one in the next. The text of a plan can be read back.

mod events;
mod way;

use std::fmt;
use std::str::FromStr;

use http::Method;

pub use way::{Faults, Life, RETRY_AFTER_SECONDS, Role};

/// What happens. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The server never sees the request; the caller gets an error.
    LoseRequest,
    /// The server carries it out; the caller gets an error.
    LoseAnswer,
    /// The server carries it out twice; the caller gets the second answer.
    Twice,
    /// It reaches the server late.
    Delay(u64),
    /// The server refuses it with this code.
    Refuse(u64),
    /// The server refuses every request of the sort with this code, for so long.
    RefuseLong(u64, u64),
    /// The component dies before the server sees it.
    CrashBefore,
    /// The component dies after the server carried it out, without the answer.
    CrashAfter,
    /// The component dies with the answer in its hand.
    CrashThen,
    /// The component stands still for so long, longer than its lease, while a rival leads; then the
    /// request goes out.
    Pause(u64),
    /// The component stands still for so long, and nobody leads meanwhile; then the request goes
    /// out.
    Stall(u64),
    /// The wall clock is set forward.
    Forward(u64),
    /// The wall clock is set back.
    Back(u64),
    /// The watch ends before the event.
    Cut,
    /// The watch ends in the middle of the event.
    CutMidway,
    /// The watch is refused as too old; the component has to list again.
    Gone,
    /// The event and all that follow come late.
    Hold(u64),
    /// The event and all that follow are withheld for so long; then the component has to list.
    Skip(u64),
    /// The component dies; what it reads after its start is as old as this revision for a while.
    Bounce(u64),
    /// The component has to list again, from a server that is as old as this revision for a while.
    Travel(u64),
    /// Every event comes late, through the whole run.
    Lag(u64),
}

/// The families of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// A crash between two steps.
    Intermediate,
    /// What is read is old.
    Stale,
    /// States come and go that the component never sees.
    Unobserved,
    /// A write whose outcome the component cannot know.
    Ambiguous,
    Duplicate,
    Zombie,
    Clock,
    /// The request fails once, or takes long.
    Refused,
    /// The request fails for a long time.
    Lasting,
}

impl Fault {
    /// Whether the component dies of it.
    pub fn is_crash(self) -> bool {
        matches!(self, Fault::CrashBefore | Fault::CrashAfter | Fault::CrashThen | Fault::Bounce(_))
    }

    pub fn pattern(self) -> Pattern {
        match self {
            Fault::LoseRequest | Fault::Delay(_) | Fault::Stall(_) => Pattern::Refused,
            Fault::Refuse(_) => Pattern::Refused,
            Fault::LoseAnswer => Pattern::Ambiguous,
            Fault::Twice => Pattern::Duplicate,
            Fault::RefuseLong(..) => Pattern::Lasting,
            Fault::CrashBefore | Fault::CrashAfter | Fault::CrashThen => Pattern::Intermediate,
            Fault::Pause(_) => Pattern::Zombie,
            Fault::Forward(_) | Fault::Back(_) => Pattern::Clock,
            Fault::Bounce(_) | Fault::Travel(_) => Pattern::Stale,
            Fault::Cut | Fault::CutMidway | Fault::Gone => Pattern::Unobserved,
            Fault::Hold(_) | Fault::Skip(_) | Fault::Lag(_) => Pattern::Unobserved,
        }
    }
}

/// A sort of request, as plans name them: what is written or read, not which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sort {
    /// The method; `WATCH` for a watch and its events.
    pub method: String,
    /// The path with names taken out: `/api/v1/namespaces/*/pods/*`.
    pub route: String,
}

impl Sort {
    pub fn of(method: &Method, path: &str) -> Sort {
        Sort { method: method.to_string(), route: route(path) }
    }

    pub fn watch(path: &str) -> Sort {
        Sort { method: "WATCH".to_owned(), route: route(path) }
    }

    pub fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "WATCH")
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.route)
    }
}

/// A fault and what it happens to.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub sort: Sort,
    pub number: usize,
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} #{}", self.fault, self.sort, self.number)
    }
}

impl FromStr for Planned {
    type Err = String;

    fn from_str(text: &str) -> Result<Planned, String> {
        let read = || {
            let (fault, place) = text.trim().split_once(" at ")?;
            let (sort, number) = place.rsplit_once(" #")?;
            let (method, route) = sort.split_once(' ')?;
            let sort = Sort { method: method.to_owned(), route: route.to_owned() };
            Some(Planned { sort, number: number.parse().ok()?, fault: fault_of(fault)? })
        };
        read().ok_or_else(|| format!("{text:?} is not a plan"))
    }
}

fn fault_of(text: &str) -> Option<Fault> {
    let (name, numbers) = text.split_once('(').unwrap_or((text, ""));
    let numbers: Vec<u64> = numbers
        .trim_end_matches(')')
        .split(", ")
        .filter_map(|number| number.parse().ok())
        .collect();
    Some(match (name, numbers.as_slice()) {
        ("LoseRequest", []) => Fault::LoseRequest,
        ("LoseAnswer", []) => Fault::LoseAnswer,
        ("Twice", []) => Fault::Twice,
        ("Delay", [seconds]) => Fault::Delay(*seconds),
        ("Refuse", [code]) => Fault::Refuse(*code),
        ("RefuseLong", [code, seconds]) => Fault::RefuseLong(*code, *seconds),
        ("CrashBefore", []) => Fault::CrashBefore,
        ("CrashAfter", []) => Fault::CrashAfter,
        ("CrashThen", []) => Fault::CrashThen,
        ("Pause", [seconds]) => Fault::Pause(*seconds),
        ("Stall", [seconds]) => Fault::Stall(*seconds),
        ("Forward", [seconds]) => Fault::Forward(*seconds),
        ("Back", [seconds]) => Fault::Back(*seconds),
        ("Cut", []) => Fault::Cut,
        ("CutMidway", []) => Fault::CutMidway,
        ("Gone", []) => Fault::Gone,
        ("Hold", [seconds]) => Fault::Hold(*seconds),
        ("Skip", [seconds]) => Fault::Skip(*seconds),
        ("Bounce", [revision]) => Fault::Bounce(*revision),
        ("Travel", [revision]) => Fault::Travel(*revision),
        ("Lag", [seconds]) => Fault::Lag(*seconds),
        _ => return None,
    })
}

fn route(path: &str) -> String {
    // /api/v1/namespaces/N/pods/N/status, /apis/G/V/namespaces/N/jobs/N
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let head = if parts.first() == Some(&"api") { 2 } else { 3 };
    let mut route: Vec<&str> = parts.iter().copied().take(head).collect();
    let mut rest = parts.get(head..).unwrap_or_default();
    if let ["namespaces", _, after @ ..] = rest
        && !after.is_empty()
    {
        route.extend(["namespaces", "*"]);
        rest = after;
    }
    for (at, part) in rest.iter().enumerate() {
        route.push(if at == 1 { "*" } else { part });
    }
    format!("/{}", route.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_names_no_object() {
        let cases = [
            ("/api/v1/namespaces/a/pods/b", "/api/v1/namespaces/*/pods/*"),
            ("/api/v1/namespaces/a", "/api/v1/namespaces/*"),
            (
                "/apis/apps/v1/namespaces/a/replicasets/b/status",
                "/apis/apps/v1/namespaces/*/replicasets/*/status",
            ),
            ("/api/v1/pods", "/api/v1/pods"),
        ];
        for (path, expected) in cases {
            assert_eq!(route(path), expected);
        }
    }

    #[test]
    fn a_plan_can_be_read_back() {
        let faults = [
            Fault::LoseRequest,
            Fault::LoseAnswer,
            Fault::Twice,
            Fault::Delay(20),
            Fault::Refuse(409),
            Fault::RefuseLong(500, 1200),
            Fault::CrashBefore,
            Fault::CrashAfter,
            Fault::CrashThen,
            Fault::Pause(60),
            Fault::Stall(60),
            Fault::Forward(3600),
            Fault::Back(3600),
            Fault::Cut,
            Fault::CutMidway,
            Fault::Gone,
            Fault::Hold(3),
            Fault::Skip(4),
            Fault::Bounce(17),
            Fault::Travel(18),
            Fault::Lag(2),
        ];
        for fault in faults {
            let sort = Sort::of(&Method::POST, "/api/v1/namespaces/a/pods");
            let planned = Planned { sort, number: 7, fault };
            assert_eq!(planned.to_string().parse(), Ok(planned));
        }
        assert!("Dance at POST /api/v1/pods #1".parse::<Planned>().is_err());
    }
}
