//! What an expression may cost, from the declared sizes of what it reads.
//!
//! A size is known from a constant, from the declaration a value was reached through, or from the
//! sizes of what it was made of. An unknown size is without bound.

use crate::check::{Checked, Resolution};
use crate::compile::{Scope, VariableKind};
use crate::cost::{Cost, Estimate};
use crate::declared::Declared;
use crate::syntax::{ACCUMULATOR, Entry, Fold, Item, Kind, Literal, Node};
use crate::types::Type;

const IDENT: Estimate = Estimate::exactly(1);
const LIST: Estimate = Estimate::exactly(10);
const MAP: Estimate = Estimate::exactly(30);
const MESSAGE: Estimate = Estimate::exactly(40);
pub(super) const UNKNOWN: Estimate = Estimate { min: 0, max: u64::MAX };

/// Estimates the cost of one evaluation.
pub(crate) fn estimate(checked: &Checked, scope: &Scope) -> Estimate {
    let count = checked.types.len();
    let mut coster = Coster {
        checked,
        scope,
        places: vec![Place::Unknown; count],
        sizes: vec![None; count],
        entries: vec![None; count],
        locals: Vec::new(),
    };
    coster.cost(&checked.root)
}

/// Where in the declarations a value was found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'c> {
    Unknown,
    At(&'c Declared),
    /// A key of a declared map.
    Key,
}

/// The sizes of the keys and the values of a list or a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub(super) is_list: bool,
    pub(super) key: Estimate,
    pub(super) value: Estimate,
}

impl Inside {
    pub(super) fn union(self, other: Inside) -> Inside {
        Inside {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

struct Local<'c> {
    name: &'c str,
    place: Place<'c>,
    size: Option<Estimate>,
    inside: Option<Inside>,
}

pub(super) struct Coster<'c> {
    pub(super) checked: &'c Checked,
    scope: &'c Scope,
    places: Vec<Place<'c>>,
    sizes: Vec<Option<Estimate>>,
    entries: Vec<Option<Inside>>,
    locals: Vec<Local<'c>>,
}

impl<'c> Coster<'c> {
    pub(super) fn cost(&mut self, node: &'c Node) -> Estimate {
        match &node.kind {
            Kind::Constant(_) => Estimate::default(),
            Kind::Ident(name) => {
                self.places[node.id as usize] = match self.local(name) {
                    Some(local) => local.place,
                    None => self.variable(node),
                };
                IDENT
            }
            Kind::Select { operand, field } => self.select(node, operand, field),
            Kind::Test { operand, .. } => self.cost(operand),
            Kind::Call { target, arguments, .. } => self.call(node, target.as_deref(), arguments),
            Kind::List(items) => self.list(node, items),
            Kind::Map(entries) => self.map(node, entries),
            Kind::Message { fields, .. } => {
                let mut sum = MESSAGE;
                for (_, value) in fields {
                    sum = sum.plus(self.cost(value));
                }
                sum
            }
            Kind::Fold(fold) => self.fold(node, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local<'c>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn variable(&self, node: &Node) -> Place<'c> {
        match &self.checked.resolutions[node.id as usize] {
            Resolution::Variable(index) => match &self.scope.variables[*index].kind {
                VariableKind::Declared(declared) | VariableKind::Optional(declared) => {
                    Place::At(declared)
                }
                _ => Place::Unknown,
            },
            _ => Place::Unknown,
        }
    }

    fn select(&mut self, node: &'c Node, operand: &'c Node, field: &str) -> Estimate {
        if let Resolution::Variable(_) | Resolution::Type(_) =
            self.checked.resolutions[node.id as usize]
        {
            return IDENT;
        }
        let cost = self.cost(operand);
        let own = match self.kind(operand) {
            Type::Map(..) | Type::Object(_) | Type::Optional(_) => IDENT,
            // Upstream charges nothing for a field of a dynamic value; evaluation does.
            _ => IDENT,
        };
        self.places[node.id as usize] = match self.place(operand) {
            Place::At(Declared::Object(object)) => match object.field(field) {
                Some(field) => Place::At(&field.declared),
                None => Place::Unknown,
            },
            Place::At(Declared::Map { values, .. }) => Place::At(values),
            _ => Place::Unknown,
        };
        cost.plus(own)
    }

    pub(super) fn kind(&self, node: &Node) -> &'c Type {
        &self.checked.types[node.id as usize]
    }

    pub(super) fn place(&self, node: &Node) -> Place<'c> {
        self.places[node.id as usize]
    }

    pub(super) fn set_place(&mut self, node: &Node, place: Place<'c>) {
        self.places[node.id as usize] = place;
    }

    pub(super) fn set_size(&mut self, node: &Node, size: Option<Estimate>) {
        if size.is_some() {
            self.sizes[node.id as usize] = size;
        }
    }

    pub(super) fn set_inside(&mut self, node: &Node, inside: Option<Inside>) {
        if inside.is_some() {
            self.entries[node.id as usize] = inside;
        }
    }

    pub(super) fn size(&self, node: &Node) -> Option<Estimate> {
        if let Some(known) = self.sizes[node.id as usize] {
            return Some(known);
        }
        literal_size(node)
            .or_else(|| place_size(self.place(node)))
            .or_else(|| scalar_size(self.kind(node)))
            .or_else(|| match &node.kind {
                Kind::Ident(name) => self.local(name).and_then(|local| local.size),
                _ => None,
            })
    }

    pub(super) fn size_or_unknown(&self, node: &Node) -> Estimate {
        self.size(node).unwrap_or(UNKNOWN)
    }

    pub(super) fn inside(&self, node: &Node) -> Option<Inside> {
        self.entries[node.id as usize].or_else(|| match &node.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.inside),
            _ => None,
        })
    }

    fn list(&mut self, node: &'c Node, items: &'c [Item]) -> Estimate {
        let mut sum = LIST;
        let mut value: Option<Estimate> = None;
        for item in items {
            sum = sum.plus(self.cost(&item.value));
            let size = self.size_or_unknown(&item.value);
            value = Some(value.map_or(size, |value| value.union(size)));
        }
        let value = value.unwrap_or_default();
        self.set_inside(node, Some(Inside { is_list: true, key: Estimate::exactly(1), value }));
        sum
    }

    fn map(&mut self, node: &'c Node, entries: &'c [Entry]) -> Estimate {
        let mut sum = MAP;
        let (mut key, mut value): (Option<Estimate>, Option<Estimate>) = (None, None);
        for entry in entries {
            sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
            let (key_size, value_size) =
                (self.size_or_unknown(&entry.key), self.size_or_unknown(&entry.value));
            key = Some(key.map_or(key_size, |key| key.union(key_size)));
            value = Some(value.map_or(value_size, |value| value.union(value_size)));
        }
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        self.set_inside(node, Some(Inside { is_list: false, key, value }));
        sum
    }

    fn fold(&mut self, node: &'c Node, fold: &'c Fold) -> Estimate {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.initial));
        let base = self.locals.len();
        self.locals.push(Local {
            name: ACCUMULATOR,
            place: Place::Unknown,
            size: self.size(&fold.initial),
            inside: self.inside(&fold.initial),
        });
        self.push_variables(fold);
        let each = self.cost(&fold.condition).plus(self.cost(&fold.step));
        let count = self.size_or_unknown(&fold.range);
        sum = sum.plus(self.cost(&fold.result)).plus(count.multiply(each));
        self.locals.truncate(base);
        match &fold.initial.kind {
            Kind::Constant(_) => self.set_size(node, self.size(&fold.initial)),
            Kind::List(_) | Kind::Map(_) => {
                self.set_size(node, Some(count));
                self.set_inside(node, self.inside(&fold.step));
            }
            _ => {}
        }
        sum
    }

    fn push_variables(&mut self, fold: &'c Fold) {
        let inside = self.inside(&fold.range);
        let place = self.place(&fold.range);
        let is_list = match inside {
            Some(inside) => inside.is_list,
            None => matches!(self.kind(&fold.range), Type::List(_)),
        };
        let value_place = match place {
            Place::At(Declared::List { items, .. }) => Place::At(items),
            Place::At(Declared::Map { values, .. }) => Place::At(values),
            _ => Place::Unknown,
        };
        let key_place = match place {
            Place::At(Declared::Map { .. }) => Place::Key,
            _ => Place::Unknown,
        };
        let key = inside.map(|inside| inside.key);
        let value = inside.map(|inside| inside.value);
        let first_is_value = fold.second.is_none() && is_list;
        let first = if first_is_value { (value_place, value) } else { (key_place, key) };
        let mut push = |name: &'c str, (place, size)| {
            self.locals.push(Local { name, place, size, inside: None });
        };
        push(&fold.variable, first);
        if let Some(name) = &fold.second {
            push(name, (value_place, value));
        }
    }

    fn call(
        &mut self,
        node: &'c Node,
        target: Option<&'c Node>,
        arguments: &'c [Node],
    ) -> Estimate {
        let (function, target) = match &self.checked.resolutions[node.id as usize] {
            Resolution::Function(function)
            | Resolution::Step(function)
            | Resolution::Free(function) => (*function, target),
            Resolution::Namespaced(function) => (*function, None),
            _ => return Estimate::default(),
        };
        let nodes: Vec<&'c Node> = target.into_iter().chain(arguments).collect();
        let costs: Vec<Estimate> = nodes.iter().map(|node| self.cost(node)).collect();
        let sum = costs.iter().fold(Estimate::default(), |sum, cost| sum.plus(*cost));
        match function.cost {
            Cost::Logical => {
                Estimate { min: costs[0].min, max: costs[0].max.saturating_add(costs[1].max) }
            }
            Cost::Conditional => {
                self.choice(node, nodes[1], nodes[2]);
                costs[0].plus(costs[1].union(costs[2]))
            }
            _ => sum.plus(self.call_cost(node, function, &nodes)),
        }
    }

    fn choice(&mut self, node: &Node, yes: &Node, no: &Node) {
        let size = self.size_or_unknown(yes).union(self.size_or_unknown(no));
        self.set_size(node, Some(size));
        if let (Some(yes), Some(no)) = (self.inside(yes), self.inside(no)) {
            self.set_inside(node, Some(yes.union(no)));
        }
    }
}

fn literal_size(node: &Node) -> Option<Estimate> {
    let size = match &node.kind {
        Kind::Constant(Literal::String(text)) => text.chars().count(),
        Kind::Constant(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Constant(_) => 1,
        Kind::List(items) => items.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Estimate::exactly(size as u64))
}

fn place_size(place: Place<'_>) -> Option<Estimate> {
    match place {
        Place::Unknown | Place::At(Declared::Dyn) => None,
        Place::At(declared) => Some(Estimate { min: 0, max: declared.max_elements() }),
        Place::Key => Some(Estimate::default()),
    }
}

pub(super) fn scalar_size(kind: &Type) -> Option<Estimate> {
    match kind {
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Duration | Type::Timestamp => {
            Some(Estimate::exactly(1))
        }
        Type::Optional(inner) => scalar_size(inner),
        _ => None,
    }
}
