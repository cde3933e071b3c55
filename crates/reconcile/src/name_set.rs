//! A few names in order. Most sets of an index have one: a tree of its own for each would take ten
//! times the room.

use std::collections::BTreeSet;

use crate::object::Name;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NameSet {
    #[default]
    None,
    One(Name),
    /// Two or more.
    Many(BTreeSet<Name>),
}

impl NameSet {
    pub fn insert(&mut self, name: Name) {
        match self {
            NameSet::None => *self = NameSet::One(name),
            NameSet::One(one) if *one == name => {}
            NameSet::One(one) => {
                *self = NameSet::Many(BTreeSet::from([one.clone(), name]));
            }
            NameSet::Many(many) => drop(many.insert(name)),
        }
    }

    pub fn remove(&mut self, name: &Name) {
        match self {
            NameSet::None => {}
            NameSet::One(one) if one == name => *self = NameSet::None,
            NameSet::One(_) => {}
            NameSet::Many(many) => {
                many.remove(name);
                if let (1, Some(one)) = (many.len(), many.first()) {
                    *self = NameSet::One(one.clone());
                }
            }
        }
    }

    pub fn len(&self) -> usize {
        match self {
            NameSet::None => 0,
            NameSet::One(_) => 1,
            NameSet::Many(many) => many.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == NameSet::None
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Name> {
        let (one, many) = match self {
            NameSet::None => (None, None),
            NameSet::One(one) => (Some(one), None),
            NameSet::Many(many) => (None, Some(many.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Those of a namespace, in order.
    pub fn of_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Name> {
        let (one, many) = match self {
            NameSet::None => (None, None),
            NameSet::One(one) => (Some(one), None),
            NameSet::Many(many) => (None, Some(many.range(Name::new(namespace, "")..))),
        };
        let found = one.into_iter().chain(many.into_iter().flatten());
        found
            .skip_while(move |name| *name.namespace < *namespace)
            .take_while(move |name| &*name.namespace == namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(set: &NameSet) -> Vec<String> {
        set.iter().map(Name::to_string).collect()
    }

    #[test]
    fn a_set_holds_what_was_put_into_it_and_not_taken_out() {
        let name = |name: &str| Name::new("a", name);
        let mut set = NameSet::default();
        assert!(set.is_empty());
        set.remove(&name("x"));
        for one in ["y", "y", "x", "z"] {
            set.insert(name(one));
        }
        assert_eq!((names(&set), set.len()), (vec!["a/x".into(), "a/y".into(), "a/z".into()], 3));
        set.remove(&name("x"));
        set.remove(&name("none"));
        set.remove(&name("z"));
        assert_eq!(set, NameSet::One(name("y")));
        set.remove(&name("z"));
        assert_eq!(names(&set), ["a/y"]);
        set.remove(&name("y"));
        assert!(set.is_empty() && names(&set).is_empty());
    }

    #[test]
    fn names_of_a_namespace_are_found_among_those_of_others() {
        let mut set = NameSet::default();
        for (namespace, name) in [("b", "x"), ("a", "y"), ("c", "z"), ("b", "w")] {
            set.insert(Name::new(namespace, name));
            let found = set.of_namespace("b").all(|name| &*name.namespace == "b");
            assert!(found && set.of_namespace("b").next().is_some());
        }
        assert_eq!(set.of_namespace("b").count(), 2);
        assert_eq!(NameSet::One(Name::new("a", "x")).of_namespace("b").count(), 0);
        assert_eq!(NameSet::One(Name::new("c", "x")).of_namespace("b").count(), 0);
    }
}
