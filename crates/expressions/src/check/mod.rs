//! The type checker: what every name stands for, which function every call means, and that the
//! types fit.
//!
//! Upstream: github.com/google/cel-go checker/checker.go, checker/errors.go

mod calls;
mod literals;

use std::collections::BTreeSet;

use crate::compile::{Scope, VariableKind};
use crate::library::Function;
use crate::problems::Problems;
use crate::syntax::parse::Tree;
use crate::syntax::{ACCUMULATOR, Entry, Fold, Item, Kind, Literal, Node};
use crate::types::{Substitution, Type};

/// A tree whose names and calls are resolved.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) root: Node,
    /// By the id of the node.
    pub(crate) types: Vec<Type>,
    pub(crate) resolutions: Vec<Resolution>,
    pub(crate) references: BTreeSet<String>,
    pub(crate) result: Type,
}

/// What a node means.
#[derive(Debug, Clone)]
pub(crate) enum Resolution {
    None,
    /// A variable of a fold, by its place on the stack.
    Local(usize),
    /// A variable of the scope.
    Variable(usize),
    /// A type as a value.
    Type(Box<str>),
    Function(&'static Function),
    /// A function whose name begins with the target.
    Namespaced(&'static Function),
    /// A step of a fold that changes the accumulator.
    Step(&'static Function),
    /// `x in [constants]`, or a conversion of a constant: nothing is charged for the call.
    Free(&'static Function),
    /// A list or a map of constants costs nothing to make.
    Constant,
}

pub(crate) fn check(source: &str, tree: Tree, scope: &Scope) -> Result<Checked, Problems> {
    let ids = tree.ids as usize;
    let mut checker = Checker {
        scope,
        locals: Vec::new(),
        types: vec![Type::Dyn; ids],
        resolutions: vec![Resolution::None; ids],
        references: BTreeSet::new(),
        substitution: Substitution::default(),
        faults: Vec::new(),
    };
    let result = checker.node(&tree.root);
    if !checker.faults.is_empty() {
        return Err(Problems::locate(source, checker.faults));
    }
    let types = checker.types.iter().map(|kind| checker.substitution.settle(kind)).collect();
    let result = checker.substitution.settle(&result);
    let Checker { resolutions, references, .. } = checker;
    Ok(Checked { root: tree.root, types, resolutions, references, result })
}

/// After so many faults the rest is noise.
const FAULTS_MAX: usize = 100;

struct Checker<'s> {
    scope: &'s Scope,
    locals: Vec<(Box<str>, Type)>,
    types: Vec<Type>,
    resolutions: Vec<Resolution>,
    references: BTreeSet<String>,
    substitution: Substitution,
    faults: Vec<(u32, String)>,
}

impl Checker<'_> {
    fn fault(&mut self, node: &Node, message: String) -> Type {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push((node.at, message));
        }
        Type::Error
    }

    fn resolve(&mut self, node: &Node, resolution: Resolution) {
        self.resolutions[node.id as usize] = resolution;
    }

    fn node(&mut self, node: &Node) -> Type {
        let found = match &node.kind {
            Kind::Constant(literal) => literal_type(literal),
            Kind::Ident(name) => self.ident(node, name),
            Kind::Select { operand, field } => self.select(node, operand, field),
            Kind::Test { operand, field } => {
                let operand_type = self.node(operand);
                self.field(node, &operand_type, field);
                Type::Bool
            }
            Kind::Call { target, function, arguments } => {
                self.call(node, target.as_deref(), function, arguments)
            }
            Kind::List(items) => self.list(node, items),
            Kind::Map(entries) => self.map(node, entries),
            Kind::Message { name, .. } => self.undeclared(node, name),
            Kind::Fold(fold) => self.fold(fold),
        };
        self.types[node.id as usize] = found.clone();
        found
    }

    fn undeclared(&mut self, node: &Node, name: &str) -> Type {
        self.fault(node, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn ident(&mut self, node: &Node, name: &str) -> Type {
        let local = self.locals.iter().rposition(|(local, _)| local.as_ref() == name);
        if let Some(slot) = local {
            self.resolve(node, Resolution::Local(slot));
            return self.locals[slot].1.clone();
        }
        match self.global(node, name) {
            Some(found) => found,
            None => self.undeclared(node, name),
        }
    }

    /// A variable of the scope, or a type.
    fn global(&mut self, node: &Node, name: &str) -> Option<Type> {
        let variables = &self.scope.variables;
        if let Some(index) = variables.iter().position(|variable| variable.name == name) {
            self.references.insert(name.to_owned());
            self.resolve(node, Resolution::Variable(index));
            return Some(match &variables[index].kind {
                VariableKind::Declared(declared) => Type::of(declared),
                VariableKind::Optional(declared) => Type::optional(Type::of(declared)),
                VariableKind::Authorizer => Type::Opaque("kubernetes.authorization.Authorizer"),
                VariableKind::ResourceCheck => {
                    Type::Opaque("kubernetes.authorization.ResourceCheck")
                }
            });
        }
        let named = Type::named(name)?;
        self.resolve(node, Resolution::Type(named.name().into()));
        Some(Type::Type(named.into()))
    }

    fn select(&mut self, node: &Node, operand: &Node, field: &str) -> Type {
        // A dotted name may be a variable or a type of its own, unless its head is a local.
        if let Some(name) = node.qualified_name() {
            let head = name.split('.').next().unwrap_or_default();
            let is_local = self.locals.iter().any(|(local, _)| local.as_ref() == head);
            if !is_local && let Some(found) = self.global(node, &name) {
                return found;
            }
        }
        let operand_type = self.node(operand);
        self.field(node, &operand_type, field)
    }

    /// The type of a field of a value of this type.
    fn field(&mut self, node: &Node, operand: &Type, field: &str) -> Type {
        match self.substitution.resolve(operand) {
            Type::Object(object) => match object.field(field) {
                Some(field) => Type::of(&field.declared),
                None => self.fault(node, format!("undefined field '{field}'")),
            },
            Type::Map(_, values) => values.as_ref().clone(),
            Type::Optional(inner) => Type::optional(self.field(node, &inner, field)),
            Type::Dyn | Type::Unknown(_) => Type::Dyn,
            Type::Error => Type::Error,
            other => self.fault(node, format!("type '{other}' does not support field selection")),
        }
    }

    /// Both types, where they agree; what is more general, where one of them is dyn.
    fn join(&mut self, node: &Node, left: Option<Type>, right: Type) -> Type {
        let Some(left) = left else { return right };
        if !self.substitution.assign(&left, &right) {
            let (left, right) =
                (self.substitution.resolve(&left), self.substitution.resolve(&right));
            let message = format!("expected type '{left}' but found '{right}'");
            return self.fault(node, message);
        }
        let (left, right) = (self.substitution.resolve(&left), self.substitution.resolve(&right));
        if left.is_dyn() || matches!(right, Type::Dyn) { Type::Dyn } else { left }
    }

    fn list(&mut self, node: &Node, items: &[Item]) -> Type {
        let mut joined = None;
        let mut constant = true;
        for item in items {
            constant &= matches!(item.value.kind, Kind::Constant(_)) && !item.optional;
            let mut found = self.node(&item.value);
            if item.optional {
                found = self.unwrap_optional(&item.value, found);
            }
            joined = Some(self.join(&item.value, joined, found));
        }
        if constant {
            self.resolve(node, Resolution::Constant);
        }
        let items = joined.unwrap_or_else(|| self.substitution.fresh());
        Type::list(items)
    }

    fn unwrap_optional(&mut self, node: &Node, found: Type) -> Type {
        match self.substitution.resolve(&found) {
            Type::Optional(inner) => inner.as_ref().clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let message = format!("expected type 'optional_type({other})' but found '{other}'");
                self.fault(node, message)
            }
        }
    }

    fn map(&mut self, node: &Node, entries: &[Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        if entries.iter().all(is_constant_entry) {
            self.resolve(node, Resolution::Constant);
        }
        for entry in entries {
            let key = self.node(&entry.key);
            keys = Some(self.join(&entry.key, keys, key));
            let mut value = self.node(&entry.value);
            if entry.optional {
                value = self.unwrap_optional(&entry.value, value);
            }
            values = Some(self.join(&entry.value, values, value));
        }
        let keys = keys.unwrap_or_else(|| self.substitution.fresh());
        let keys = match self.substitution.resolve(&keys) {
            // No value of these types is a key; their types must not grow with every nesting.
            Type::List(_) | Type::Map(..) | Type::Optional(_) => Type::Dyn,
            other => other,
        };
        let values = values.unwrap_or_else(|| self.substitution.fresh());
        Type::map(keys, values)
    }

    fn fold(&mut self, fold: &Fold) -> Type {
        let range = self.node(&fold.range);
        let initial = self.node(&fold.initial);
        let (first, second) = match self.substitution.resolve(&range) {
            Type::List(items) if fold.second.is_some() => (Type::Int, items.as_ref().clone()),
            Type::List(items) => (items.as_ref().clone(), Type::Dyn),
            Type::Map(keys, values) => (keys.as_ref().clone(), values.as_ref().clone()),
            Type::Dyn | Type::Error | Type::Unknown(_) => (Type::Dyn, Type::Dyn),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.fault(&fold.range, message);
                (Type::Error, Type::Error)
            }
        };
        let base = self.locals.len();
        self.locals.push((ACCUMULATOR.into(), initial.clone()));
        self.locals.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.locals.push((name.clone(), second));
        }
        let condition = self.node(&fold.condition);
        self.expect_type(&fold.condition, &Type::Bool, &condition);
        let step = self.node(&fold.step);
        self.expect_type(&fold.step, &initial, &step);
        // The variables are not visible to the result; it uses the accumulator's slot only.
        let result = self.node(&fold.result);
        self.locals.truncate(base);
        self.substitution.resolve(&result)
    }

    fn expect_type(&mut self, node: &Node, wanted: &Type, found: &Type) {
        if !self.substitution.assign(wanted, found) {
            let wanted = self.substitution.resolve(wanted);
            let found = self.substitution.resolve(found);
            self.fault(node, format!("expected type '{wanted}' but found '{found}'"));
        }
    }
}

fn is_constant_entry(entry: &Entry) -> bool {
    let is_constant = |node: &Node| matches!(node.kind, Kind::Constant(_));
    !entry.optional && is_constant(&entry.key) && is_constant(&entry.value)
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
