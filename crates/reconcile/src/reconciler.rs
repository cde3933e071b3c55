//! The trait a controller implements.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::Error;
use crate::backoff::Backoff;
use crate::cache::{Cache, Change};
use crate::caches::Caches;
use crate::context::Context;
use crate::kind::Kind;
use crate::object::{Name, Object};
use crate::plan::Plan;

/// A controller: observe, plan; acting is this crate's.
///
/// # Guarantees
/// - `reconcile` of one object is never run twice at the same time.
/// - `observe` sees caches at least as new as the object's own last write.
///
/// # Assumptions
/// - `plan` is a pure function of its arguments.
/// - Every step of a plan may be repeated.
pub trait Reconciler: Send + Sync + 'static {
    type Observed: Send;

    /// Metric label, span and lease name; field manager and event source unless they differ.
    const NAME: &'static str;

    /// Who owns the fields that are written.
    const MANAGER: &'static str = Self::NAME;

    /// What is reconciled.
    const KIND: Kind;

    /// Before the names of what is counted by the resource, where users know it so.
    const COUNTED_AS: Option<&'static str> = None;

    /// Whether the log says what users are told of its objects: where they look for it there.
    const IS_LOGGED: bool = Self::COUNTED_AS.is_some();

    /// Whether a change of such an object is worth a look; asked of how it was and how it is.
    fn concerns(_object: &Object) -> bool
    where
        Self: Sized,
    {
        true
    }

    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// Which other kinds wake which object.
    fn watches(&self, _watches: &mut Watches) {}

    /// Reads what the plan needs; the only part that may wait.
    fn observe(
        &self,
        context: &Context,
        object: &Arc<Object>,
    ) -> impl Future<Output = Result<Self::Observed, Error>> + Send;

    /// Decides.
    fn plan(
        &self,
        object: &Object,
        observed: &Self::Observed,
        now: Timestamp,
    ) -> Result<Plan, Error>;

    /// What to report when a step was refused, or something was found that only others can put
    /// right, before it is tried again: a status and notices. Its steps are not performed.
    fn refused(
        &self,
        _object: &Object,
        _observed: &Self::Observed,
        _error: &Error,
        _now: Timestamp,
    ) -> Option<Plan> {
        None
    }

    /// A reconcile has ended, and how.
    fn finished(&self, _name: &Name, _result: Result<(), &Error>) {}

    /// How long an object is left alone at least after a reconcile that failed so; a change of it
    /// ends that.
    fn pause_after(&self, _error: &Error) -> Duration {
        Duration::ZERO
    }
}

/// How one controller is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Objects reconciled at once.
    pub workers_max: usize,
    pub backoff: Backoff,
    /// A reconcile that takes longer is given up and tried again.
    pub timeout: Duration,
    /// Every object is looked at again this often, whatever happens; `None` is never.
    pub resync: Option<Duration>,
    /// How many times as long as a reconcile thought that did nothing but report, its object rests.
    /// What changes meanwhile is reported at once, so that many children take few looks; one that
    /// has few children is looked at as soon as they change, however slow the disk is.
    pub rest: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            workers_max: 8,
            backoff: Backoff::default(),
            timeout: Duration::from_secs(60),
            resync: None,
            rest: 0,
        }
    }
}

/// Names the objects that a change of an object of another kind wakes.
pub(crate) type Waker = Box<dyn Fn(&Change) -> Vec<Name> + Send + Sync>;
/// Names the objects that the deletion of an object of another kind wakes.
pub(crate) type RemovalWaker = Box<dyn Fn(&Name) -> Vec<Name> + Send + Sync>;

/// One feed of a controller's queue.
pub(crate) enum Feed {
    /// Changes of any object of the kind.
    Full(Kind, Waker),
    /// Changes of objects that the controller's own objects control.
    Owned(Kind, Waker),
    /// Deletions of any object of the kind, of which only the name is known.
    Removals(Kind, RemovalWaker),
}

/// Which changes wake which objects.
pub struct Watches {
    pub(crate) feeds: Vec<Feed>,
    caches: Arc<Caches>,
}

impl Watches {
    pub(crate) fn new(caches: Arc<Caches>) -> Watches {
        Watches { feeds: Vec::new(), caches }
    }

    /// A cache, for wakers that have to look who is concerned. It is whole before the first
    /// reconcile.
    pub fn cache(&mut self, kind: Kind) -> Arc<Cache> {
        self.reads(kind);
        self.caches.of(kind)
    }

    /// A change of an object of this kind wakes its controlling owner, the one it had and the one
    /// it has. The owner is found by its kind and name.
    pub fn owned(&mut self, kind: Kind, owner: Kind) {
        self.by(kind, move |change| owners_of(change, owner));
    }

    /// The same for a kind that is read through [`Context::owned_cache`].
    pub fn children(&mut self, kind: Kind, owner: Kind) {
        self.children_by(kind, move |change| owners_of(change, owner));
    }

    /// A change of an object of this kind wakes what the function says.
    pub fn by(&mut self, kind: Kind, waker: impl Fn(&Change) -> Vec<Name> + Send + Sync + 'static) {
        self.feeds.push(Feed::Full(kind, Box::new(waker)));
    }

    /// The same for objects of a kind that is read through [`Context::owned_cache`], as far as
    /// they are held in full.
    pub fn children_by(
        &mut self,
        kind: Kind,
        waker: impl Fn(&Change) -> Vec<Name> + Send + Sync + 'static,
    ) {
        self.feeds.push(Feed::Owned(kind, Box::new(waker)));
    }

    /// The deletion of an object of a kind that is read through [`Context::owned_cache`], whoever
    /// controls it, wakes what the function says.
    pub fn removals(
        &mut self,
        kind: Kind,
        waker: impl Fn(&Name) -> Vec<Name> + Send + Sync + 'static,
    ) {
        self.feeds.push(Feed::Removals(kind, Box::new(waker)));
    }

    /// The controller reads this kind but is not woken by it; its cache is there from the start.
    pub fn reads(&mut self, kind: Kind) {
        self.by(kind, |_| Vec::new());
    }
}

/// The controlling owners of this kind that an object had and has.
fn owners_of(change: &Change, owner: Kind) -> Vec<Name> {
    let sides = [&change.old, &change.new].into_iter().flatten();
    sides.filter_map(|object| crate::owners::controller_name(object, owner)).collect()
}
