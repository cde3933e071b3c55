//! A set of paths, as a tree.
//!
//! A node is in the set when it is a member; a node that is not has children that are. Nodes are
//! sorted, so every operation on two sets is one walk over both.

use std::fmt;

use crate::element::{self, Element, Path};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    nodes: Vec<Node>,
}

/// The set of nothing, to refer to.
pub static NOTHING: Set = Set::EMPTY;

/// An element of a path, whether the path to it is in the set, and what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub element: Element,
    pub member: bool,
    pub below: Set,
}

impl Set {
    pub const EMPTY: Set = Set { nodes: Vec::new() };

    /// The set of some paths of plain fields: `Set::of_fields(&[&["metadata", "name"]])`.
    pub fn of_fields(paths: &[&[&str]]) -> Set {
        let mut set = Set::default();
        for path in paths {
            let path: Path = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many paths are in the set.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// Puts a path in. The whole object, which is the empty path, is nobody's.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.node_mut(first);
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    /// Whether a path is in the set itself.
    pub fn has(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first).is_some_and(|node| match rest {
            [] => node.member,
            rest => node.below.has(rest),
        })
    }

    /// The node of an element, member or not.
    pub fn get(&self, element: &Element) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[at])
    }

    /// The node of a field.
    pub fn field(&self, name: &str) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| match &node.element {
            Element::Field(field) => (**field).cmp(name),
            _ => std::cmp::Ordering::Greater,
        });
        at.ok().map(|at| &self.nodes[at])
    }

    /// What is below an element, without the element.
    pub fn prefix(&self, element: &Element) -> &Set {
        self.get(element).map_or(&NOTHING, |node| &node.below)
    }

    /// Puts a node in, joined with the one that is there. A node that says nothing is left out.
    pub fn put(&mut self, node: Node) {
        if !node.member && node.below.is_empty() {
            return;
        }
        // Walks go in order, so a node mostly belongs at the end.
        if self.nodes.last().is_none_or(|last| last.element < node.element) {
            self.nodes.push(node);
            return;
        }
        match self.nodes.binary_search_by(|one| one.element.cmp(&node.element)) {
            Err(at) => self.nodes.insert(at, node),
            Ok(at) => {
                let there = &mut self.nodes[at];
                there.member |= node.member;
                there.below = std::mem::take(&mut there.below).union(&node.below);
            }
        }
    }

    /// All that is in either.
    pub fn union(self, other: &Set) -> Set {
        if other.is_empty() {
            return self;
        }
        let mut joined = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut others = other.nodes.iter().peekable();
        for mut node in self.nodes {
            while let Some(before) = others.next_if(|one| one.element < node.element) {
                joined.push(before.clone());
            }
            if let Some(same) = others.next_if(|one| one.element == node.element) {
                node.member |= same.member;
                node.below = node.below.union(&same.below);
            }
            joined.push(node);
        }
        joined.extend(others.cloned());
        Set { nodes: joined }
    }

    /// All that is in both.
    pub fn intersection(&self, other: &Set) -> Set {
        let mut both = Set::default();
        let mut others = other.nodes.iter().peekable();
        for node in &self.nodes {
            while others.next_if(|one| one.element < node.element).is_some() {}
            let Some(same) = others.next_if(|one| one.element == node.element) else { continue };
            both.put(Node {
                element: node.element.clone(),
                member: node.member && same.member,
                below: node.below.intersection(&same.below),
            });
        }
        both
    }

    /// What is in this set and not in the other. Each path is on its own: `.a.b` stays when only
    /// `.a` is taken away.
    pub fn difference(self, other: &Set) -> Set {
        self.less(other, Below::OnItsOwn)
    }

    /// As [`Set::difference`], but what is below a member of the other goes with it.
    pub fn recursive_difference(self, other: &Set) -> Set {
        self.less(other, Below::WithItsParent)
    }

    fn less(self, other: &Set, rule: Below) -> Set {
        if other.is_empty() {
            return self;
        }
        let mut left = Vec::with_capacity(self.nodes.len());
        let mut others = other.nodes.iter().peekable();
        for mut node in self.nodes {
            while others.next_if(|one| one.element < node.element).is_some() {}
            if let Some(same) = others.next_if(|one| one.element == node.element) {
                if same.member && rule == Below::WithItsParent {
                    continue;
                }
                node.member &= !same.member;
                node.below = node.below.less(&same.below, rule);
            }
            if node.member || !node.below.is_empty() {
                left.push(node);
            }
        }
        Set { nodes: left }
    }

    /// Whether everything here is in the other.
    pub fn is_within(&self, other: &Set) -> bool {
        self.nodes.iter().all(|node| match other.get(&node.element) {
            None => false,
            Some(same) => (same.member || !node.member) && node.below.is_within(&same.below),
        })
    }

    /// The members that have no members below them.
    pub fn leaves(&self) -> Set {
        let nodes = self.nodes.iter().map(|node| Node {
            element: node.element.clone(),
            member: node.member && node.below.is_empty(),
            below: node.below.leaves(),
        });
        Set { nodes: nodes.collect() }
    }

    /// Every path of the set, in order, a path before what is below it.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, path: &mut Path, paths: &mut Vec<Path>) {
        // Members first and then what is below them, level by level, is the order of messages.
        for node in self.nodes.iter().filter(|node| node.member) {
            path.push(node.element.clone());
            paths.push(path.clone());
            path.pop();
        }
        for node in &self.nodes {
            path.push(node.element.clone());
            node.below.collect_paths(path, paths);
            path.pop();
        }
    }

    fn node_mut(&mut self, element: &Element) -> &mut Node {
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(element)) {
            Ok(at) => at,
            Err(at) => {
                let element = element.clone();
                self.nodes.insert(at, Node { element, member: false, below: Set::EMPTY });
                at
            }
        };
        &mut self.nodes[at]
    }
}

/// What becomes of the paths below one that is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    OnItsOwn,
    WithItsParent,
}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Set {
        let mut set = Set::default();
        for path in paths {
            set.insert(&path);
        }
        set
    }
}

/// One path a line.
impl fmt::Display for Set {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.paths().iter().enumerate() {
            let line_end = if at == 0 { "" } else { "\n" };
            write!(out, "{line_end}{}", element::display(path))?;
        }
        Ok(())
    }
}
