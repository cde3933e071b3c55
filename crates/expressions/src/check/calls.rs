//! Calls: which function is meant, and which of its signatures fit.

use crate::check::{Checker, Resolution};
use crate::library::{self, Function, Signature};
use crate::syntax::{ACCUMULATOR, Kind, Node};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        node: &Node,
        target: Option<&Node>,
        name: &str,
        arguments: &[Node],
    ) -> Type {
        if let Some(target_node) = target
            && let Some(function) = self.namespaced(target_node, name)
        {
            self.resolve(node, Resolution::Namespaced(function));
            let types = self.arguments(arguments);
            return self.overload(node, function, None, &types);
        }
        if let ("_?._", [operand, field]) = (name, arguments) {
            return self.optional_select(node, operand, field);
        }
        let target_type = target.map(|target| self.node(target));
        let types = match (name, arguments) {
            // What is formatted may be of any types together.
            ("format", [Node { kind: Kind::List(items), .. }]) if target.is_some() => {
                for item in items {
                    self.node(&item.value);
                }
                vec![Type::list(Type::Dyn)]
            }
            _ => self.arguments(arguments),
        };
        let Some(function) = library::find(name) else {
            return self.undeclared(node, name);
        };
        self.resolve(node, resolution(function, arguments));
        if self.is_free(name, arguments) {
            self.resolve(node, Resolution::Free(function));
        }
        self.literal_arguments(node, name, target.is_some(), arguments);
        self.overload(node, function, target_type.as_ref(), &types)
    }

    /// Upstream folds these before evaluation, so that they cost nothing.
    fn is_free(&self, name: &str, arguments: &[Node]) -> bool {
        match (name, arguments) {
            ("@in", [_, list @ Node { kind: Kind::List(_), .. }]) => {
                matches!(self.resolutions[list.id as usize], Resolution::Constant)
            }
            (
                "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp"
                | "uint",
                [Node { kind: Kind::Constant(_), .. }],
            ) => true,
            _ => false,
        }
    }

    fn arguments(&mut self, arguments: &[Node]) -> Vec<Type> {
        arguments.iter().map(|argument| self.node(argument)).collect()
    }

    /// `sets.contains(a, b)`: the target is no value but the first part of a name.
    fn namespaced(&self, target: &Node, name: &str) -> Option<&'static Function> {
        let prefix = target.qualified_name()?;
        let head = prefix.split('.').next().unwrap_or_default();
        if self.locals.iter().any(|(local, _)| local.as_ref() == head) {
            return None;
        }
        library::find(&format!("{prefix}.{name}"))
    }

    /// `a.?b`
    fn optional_select(&mut self, node: &Node, operand: &Node, field: &Node) -> Type {
        let operand_type = self.node(operand);
        self.node(field);
        let Some(function) = library::find("_?._") else { return Type::Dyn };
        self.resolve(node, Resolution::Function(function));
        let Kind::Constant(crate::syntax::Literal::String(name)) = &field.kind else {
            return Type::Dyn;
        };
        match self.field(field, &operand_type, name) {
            already @ Type::Optional(_) => already,
            found => Type::optional(found),
        }
    }

    /// The type of the result of the signatures that fit; dyn if they differ.
    fn overload(
        &mut self,
        node: &Node,
        function: &'static Function,
        target: Option<&Type>,
        arguments: &[Type],
    ) -> Type {
        let signatures = library::signatures(function);
        let mut result: Option<Type> = None;
        for signature in signatures {
            let saved = self.substitution.save();
            match self.fit(signature, target, arguments) {
                None => self.substitution.restore(saved),
                Some(found) => {
                    let found = self.substitution.resolve(&found);
                    result = Some(match result {
                        None => found,
                        Some(earlier) if earlier.to_string() == found.to_string() => earlier,
                        Some(_) => Type::Dyn,
                    });
                    // What is known for certain leaves no choice.
                    let certain = target.into_iter().chain(arguments).all(|kind| {
                        !matches!(self.substitution.resolve(kind), Type::Dyn | Type::Error)
                    });
                    if certain {
                        break;
                    }
                }
            }
        }
        match result {
            Some(found) => found,
            None => self.no_overload(node, function.name, target, arguments),
        }
    }

    fn no_overload(
        &mut self,
        node: &Node,
        name: &str,
        target: Option<&Type>,
        arguments: &[Type],
    ) -> Type {
        let mut all = target.into_iter().chain(arguments);
        if all.any(|kind| matches!(self.substitution.resolve(kind), Type::Error)) {
            return Type::Error;
        }
        let shown: Vec<String> =
            arguments.iter().map(|kind| self.substitution.resolve(kind).to_string()).collect();
        let shown = shown.join(", ");
        let receiver = match target {
            Some(target) => format!("{}.", self.substitution.resolve(target)),
            None => String::new(),
        };
        let message =
            format!("found no matching overload for '{name}' applied to '{receiver}({shown})'");
        self.fault(node, message)
    }

    fn fit(
        &mut self,
        signature: &Signature,
        target: Option<&Type>,
        arguments: &[Type],
    ) -> Option<Type> {
        if signature.receiver.is_some() != target.is_some()
            || signature.parameters.len() != arguments.len()
        {
            return None;
        }
        let parameters: Vec<Type> =
            (0..signature.unknowns).map(|_| self.substitution.fresh()).collect();
        if let (Some(wanted), Some(given)) = (&signature.receiver, target) {
            let wanted = instantiate(wanted, &parameters);
            if !self.substitution.assign(&wanted, given) {
                return None;
            }
        }
        for (wanted, given) in signature.parameters.iter().zip(arguments) {
            let wanted = instantiate(wanted, &parameters);
            if !self.substitution.assign(&wanted, given) {
                return None;
            }
        }
        Some(instantiate(&signature.result, &parameters))
    }
}

fn resolution(function: &'static Function, arguments: &[Node]) -> Resolution {
    let changes_accumulator = matches!(function.name, "_+_" | "cel.@mapInsert")
        && matches!(&arguments[0].kind, Kind::Ident(name) if name.as_ref() == ACCUMULATOR);
    if changes_accumulator { Resolution::Step(function) } else { Resolution::Function(function) }
}

/// A signature's type with its parameters replaced.
fn instantiate(kind: &Type, parameters: &[Type]) -> Type {
    match kind {
        Type::Unknown(index) => parameters[*index as usize].clone(),
        Type::List(items) => Type::list(instantiate(items, parameters)),
        Type::Map(keys, values) => {
            Type::map(instantiate(keys, parameters), instantiate(values, parameters))
        }
        Type::Optional(inner) => Type::optional(instantiate(inner, parameters)),
        other => other.clone(),
    }
}
