//! A place on an entry where its readers keep what they computed from it.
//!
//! An entry never changes, and all readers share it: what one of them derives (an encoded event, a
//! row of a table) is there for the next.

use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// Something computed from an entry, once. Not part of the entry's identity.
#[derive(Default)]
pub struct Derived(OnceLock<Box<dyn Any + Send + Sync>>);

impl Derived {
    /// What was derived, if somebody has.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        let derived = self.0.get()?;
        Some(derived.downcast_ref().expect("all readers of a store must derive one type"))
    }

    /// What was derived, made now if nobody has yet. All readers of a store must derive one type.
    pub fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> &T {
        let derived = self.0.get_or_init(|| Box::new(make()));
        derived.downcast_ref().expect("all readers of a store must derive one type")
    }
}

impl Clone for Derived {
    fn clone(&self) -> Derived {
        Derived::default()
    }
}

impl PartialEq for Derived {
    fn eq(&self, _: &Derived) -> bool {
        true
    }
}

impl Eq for Derived {}

impl fmt::Debug for Derived {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Derived")
    }
}
