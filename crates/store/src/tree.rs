//! A persistent B-tree of entries: cloning it is one reference count, so a list can walk a state
//! for as long as it likes while commits go on.
//!
//! A change copies only the nodes that some clone still shares. Branches count what is below them,
//! so the size of a range costs no walk.

use std::sync::Arc;

use crate::{Entry, Key, KeyRange};

const NODE_MAX: usize = 64;
const NODE_MIN: usize = NODE_MAX / 4;

/// An ordered map from keys to entries.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    root: Arc<Node>,
}

#[derive(Clone)]
enum Node {
    Leaf(Vec<Arc<Entry>>),
    Branch(Vec<Child>),
}

#[derive(Clone)]
struct Child {
    /// The smallest key below, or a smaller one that has since been removed.
    first: Key,
    len: usize,
    node: Arc<Node>,
}

impl Default for Node {
    fn default() -> Node {
        Node::Leaf(Vec::new())
    }
}

impl Tree {
    /// Builds a tree from entries in strictly increasing key order.
    pub fn from_sorted(entries: Vec<Arc<Entry>>) -> Tree {
        debug_assert!(entries.is_sorted_by(|a, b| a.key < b.key));
        // Three quarters full: room for inserts before the first split.
        const FILL: usize = NODE_MAX * 3 / 4;
        let leaves = entries.chunks(FILL).map(|part| Child::of(Node::Leaf(part.to_vec())));
        let mut level: Vec<Child> = leaves.collect();
        while level.len() > 1 {
            let parts = level.chunks(FILL);
            level = parts.map(|part| Child::of(Node::Branch(part.to_vec()))).collect();
        }
        Tree { root: level.pop().map_or_else(Arc::default, |child| child.node) }
    }

    pub fn len(&self) -> usize {
        self.root.len()
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Branch(children) => node = &*children[child_for(children, key)].node,
                Node::Leaf(entries) => return position(entries, key).ok().map(|at| &entries[at]),
            }
        }
    }

    /// Puts an entry and returns the one it replaces.
    pub fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let (previous, split) = insert(&mut self.root, entry);
        if let Some(right) = split {
            let left = Child::around(std::mem::take(&mut self.root));
            self.root = Arc::new(Node::Branch(vec![left, right]));
        }
        previous
    }

    pub fn remove(&mut self, key: &Key) -> Option<Arc<Entry>> {
        let removed = remove(&mut self.root, key);
        // A branch with one child is that child.
        while let Node::Branch(children) = &*self.root
            && children.len() == 1
        {
            self.root = children[0].node.clone();
        }
        removed
    }

    /// The entries of a range, in order.
    pub fn range<'a>(&'a self, range: &'a KeyRange) -> Range<'a> {
        let mut walk = Range { path: Vec::new(), range };
        walk.descend(&self.root, &range.start);
        walk
    }

    /// How many entries a range holds.
    pub fn count(&self, range: &KeyRange) -> usize {
        let end = range.end.as_ref().map_or(self.len(), |end| rank(&self.root, end));
        end.saturating_sub(rank(&self.root, &range.start))
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Branch(children) => children.iter().map(|child| child.len).sum(),
        }
    }

    fn width(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Branch(children) => children.len(),
        }
    }

    fn first(&self) -> Key {
        match self {
            Node::Leaf(entries) => entries[0].key.clone(),
            Node::Branch(children) => children[0].first.clone(),
        }
    }

    /// Cuts off the right half when the node is over-full.
    fn split(&mut self) -> Option<Child> {
        if self.width() <= NODE_MAX {
            return None;
        }
        Some(Child::of(match self {
            Node::Leaf(entries) => Node::Leaf(entries.split_off(NODE_MAX / 2)),
            Node::Branch(children) => Node::Branch(children.split_off(NODE_MAX / 2)),
        }))
    }

    fn append(&mut self, right: &Node) {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => left.extend_from_slice(right),
            (Node::Branch(left), Node::Branch(right)) => left.extend_from_slice(right),
            _ => unreachable!("siblings must be of one level"),
        }
    }
}

impl Child {
    fn of(node: Node) -> Child {
        Child::around(Arc::new(node))
    }

    fn around(node: Arc<Node>) -> Child {
        Child { first: node.first(), len: node.len(), node }
    }
}

fn position(entries: &[Arc<Entry>], key: &Key) -> Result<usize, usize> {
    entries.binary_search_by(|entry| entry.key.cmp(key))
}

fn child_for(children: &[Child], key: &Key) -> usize {
    children.partition_point(|child| child.first <= *key).saturating_sub(1)
}

fn insert(node: &mut Arc<Node>, entry: Arc<Entry>) -> (Option<Arc<Entry>>, Option<Child>) {
    let node = Arc::make_mut(node);
    let previous = match node {
        Node::Leaf(entries) => match position(entries, &entry.key) {
            Ok(at) => Some(std::mem::replace(&mut entries[at], entry)),
            Err(at) => {
                entries.insert(at, entry);
                None
            }
        },
        Node::Branch(children) => {
            let at = child_for(children, &entry.key);
            let child = &mut children[at];
            if entry.key < child.first {
                child.first = entry.key.clone();
            }
            let (previous, split) = insert(&mut child.node, entry);
            child.len = child.node.len();
            if let Some(right) = split {
                children.insert(at + 1, right);
            }
            previous
        }
    };
    (previous, node.split())
}

fn remove(node: &mut Arc<Node>, key: &Key) -> Option<Arc<Entry>> {
    // Look first: a key that is not there must not copy the path to it.
    let at = match &**node {
        Node::Leaf(entries) => position(entries, key).ok()?,
        Node::Branch(children) => child_for(children, key),
    };
    match Arc::make_mut(node) {
        Node::Leaf(entries) => Some(entries.remove(at)),
        Node::Branch(children) => {
            let removed = remove(&mut children[at].node, key)?;
            children[at].len -= 1;
            shrink(children, at);
            Some(removed)
        }
    }
}

/// Drops an empty child, and joins a thin one with its neighbour.
fn shrink(children: &mut Vec<Child>, at: usize) {
    let width = children[at].node.width();
    if width == 0 {
        // The last child stays: an empty tree is an empty leaf.
        if children.len() > 1 {
            children.remove(at);
        }
        return;
    }
    let left = if at + 1 < children.len() { at } else { at.saturating_sub(1) };
    if width >= NODE_MIN || left + 1 >= children.len() {
        return;
    }
    if children[left].node.width() + children[left + 1].node.width() <= NODE_MAX / 2 {
        let right = children.remove(left + 1);
        let child = &mut children[left];
        Arc::make_mut(&mut child.node).append(&right.node);
        child.len += right.len;
    }
}

/// How many entries have keys below a bound.
fn rank(node: &Node, bound: &[u8]) -> usize {
    match node {
        Node::Leaf(entries) => entries.partition_point(|entry| entry.key.as_bytes() < bound),
        Node::Branch(children) => {
            let after = children.partition_point(|child| child.first.as_bytes() < bound);
            let Some(at) = after.checked_sub(1) else { return 0 };
            let before: usize = children[..at].iter().map(|child| child.len).sum();
            before + rank(&children[at].node, bound)
        }
    }
}

/// A walk over a range.
pub(crate) struct Range<'a> {
    /// The nodes from the root down, each with the position to visit next.
    path: Vec<(&'a Node, usize)>,
    range: &'a KeyRange,
}

impl<'a> Range<'a> {
    fn descend(&mut self, mut node: &'a Node, start: &[u8]) {
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.partition_point(|entry| entry.key.as_bytes() < start);
                    self.path.push((node, at));
                    return;
                }
                Node::Branch(children) => {
                    let after = children.partition_point(|child| child.first.as_bytes() <= start);
                    let at = after.saturating_sub(1);
                    self.path.push((node, at + 1));
                    node = &children[at].node;
                }
            }
        }
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = &'a Arc<Entry>;

    fn next(&mut self) -> Option<&'a Arc<Entry>> {
        loop {
            let (node, at) = self.path.last_mut()?;
            match node {
                Node::Leaf(entries) => match entries.get(*at) {
                    Some(entry) if self.range.is_before_end(&entry.key) => {
                        *at += 1;
                        return Some(entry);
                    }
                    Some(_) => {
                        self.path.clear();
                        return None;
                    }
                    None => {
                        self.path.pop();
                    }
                },
                Node::Branch(children) => match children.get(*at) {
                    Some(child) => {
                        *at += 1;
                        self.descend(&child.node, &[]);
                    }
                    None => {
                        self.path.pop();
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Revision;

    fn entry(number: u16, revision: u64) -> Arc<Entry> {
        let key = Key::new(format!("{number:05}")).unwrap();
        let modified = Revision(revision);
        Arc::new(Entry::new(key, Default::default(), modified, modified))
    }

    fn keys<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> Vec<(Key, Revision)> {
        entries.map(|entry| (entry.key.clone(), entry.modified)).collect()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16),
        Remove(u16),
        Range(u16, u16),
        Remember,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let number = 0..3_000_u16;
        let step = prop_oneof![
            6 => number.clone().prop_map(Step::Insert),
            5 => number.clone().prop_map(Step::Remove),
            1 => (number.clone(), number).prop_map(|(a, b)| Step::Range(a, b)),
            1 => Just(Step::Remember),
        ];
        proptest::collection::vec(step, 1..3_000)
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            cases: 64,
            ..Default::default()
        })]
        #[test]
        fn the_tree_equals_a_plain_map_and_its_clones_never_change(steps in steps()) {
            let mut tree = Tree::default();
            let mut model: BTreeMap<u16, Arc<Entry>> = BTreeMap::new();
            let mut remembered = Vec::new();
            for (revision, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(number) => {
                        let entry = entry(number, revision as u64);
                        prop_assert_eq!(tree.insert(entry.clone()), model.insert(number, entry));
                    }
                    Step::Remove(number) => {
                        let removed = tree.remove(&entry(number, 0).key);
                        prop_assert_eq!(removed, model.remove(&number));
                    }
                    Step::Range(from, to) => {
                        let range = KeyRange::between(&format!("{from:05}"), &format!("{to:05}"));
                        let expected = keys(model.range(from..to.max(from)).map(|(_, e)| e));
                        prop_assert_eq!(tree.count(&range), expected.len());
                        prop_assert_eq!(keys(tree.range(&range)), expected);
                    }
                    Step::Remember => remembered.push((tree.clone(), model.clone())),
                }
                prop_assert_eq!(tree.len(), model.len());
            }
            remembered.push((tree, model));
            for (tree, model) in remembered {
                prop_assert_eq!(keys(tree.range(&KeyRange::all())), keys(model.values()));
                for (number, expected) in model {
                    prop_assert_eq!(tree.get(&entry(number, 0).key), Some(&expected));
                }
            }
        }
    }

    #[test]
    fn a_tree_built_from_sorted_entries_equals_one_grown() {
        for size in [0, 1, 47, 48, 49, 500, 5_000] {
            let entries: Vec<_> = (0..size).map(|number| entry(number, 1)).collect();
            let mut grown = Tree::default();
            for entry in &entries {
                grown.insert(entry.clone());
            }
            let built = Tree::from_sorted(entries);
            assert_eq!(built.len(), size as usize);
            let all = KeyRange::all();
            assert_eq!(keys(built.range(&all)), keys(grown.range(&all)));
        }
    }
}
