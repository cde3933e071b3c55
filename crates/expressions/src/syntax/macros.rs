//! The macros: `has`, and those over lists and maps, which become folds.
//!
//! Upstream: github.com/google/cel-go parser/macro.go, ext/comprehensions.go

use crate::syntax::parse::Parser;
use crate::syntax::tokens::Fault;
use crate::syntax::{ACCUMULATOR, Entry, Fold, Item, Kind, Literal, Node};

/// `has(a.b)`
pub(crate) fn has(parser: &mut Parser, at: u32, arguments: Vec<Node>) -> Result<Node, Fault> {
    let count = arguments.len();
    let mut arguments = arguments.into_iter();
    match (arguments.next().map(|argument| argument.kind), count) {
        (Some(Kind::Select { operand, field }), 1) => {
            Ok(parser.node(at, Kind::Test { operand, field }))
        }
        (_, 1) => Err((at, "invalid argument to has() macro".to_owned())),
        _ => Ok(parser.call(at, "has", arguments.collect())),
    }
}

/// A call on a value: a macro, or what it says.
pub(crate) fn member(
    parser: &mut Parser,
    at: u32,
    target: Node,
    name: &str,
    arguments: Vec<Node>,
) -> Result<Node, Fault> {
    let build: fn(&mut Expansion<'_>, &[Node]) -> Parts = match (name, arguments.len()) {
        ("all", 2 | 3) => all,
        ("exists", 2 | 3) => exists,
        ("exists_one" | "existsOne", 2 | 3) => exists_one,
        ("map", 2) => map,
        ("map", 3) => map_filtered,
        ("filter", 2) => filter,
        ("transformList", 3) => transform_list,
        ("transformList", 4) => transform_list_filtered,
        ("transformMap", 3) => transform_map,
        ("transformMap", 4) => transform_map_filtered,
        ("transformMapEntry", 3) => transform_map_entry,
        ("transformMapEntry", 4) => transform_map_entry_filtered,
        ("optMap", 2) => return optional_map(parser, at, target, arguments, Wrap::Value),
        ("optFlatMap", 2) => return optional_map(parser, at, target, arguments, Wrap::Optional),
        ("sortBy", 2) => return sort_by(parser, at, target, arguments),
        _ => {
            let target = Some(Box::new(target));
            return Ok(parser.node(at, Kind::Call { target, function: name.into(), arguments }));
        }
    };
    let two = name.starts_with("transform")
        || (arguments.len() == 3 && matches!(name, "all" | "exists" | "exists_one" | "existsOne"));
    let variable = variable_name(&arguments[0])?;
    let second = if two { Some(variable_name(&arguments[1])?) } else { None };
    if second.as_ref() == Some(&variable) {
        let message = format!("duplicate variable name: {variable}");
        return Err((arguments[1].at, message));
    }
    let rest = arguments.get(if two { 2 } else { 1 }..).unwrap_or_default();
    let parts = build(&mut Expansion { parser, at, variable: &variable }, rest);
    let Parts { initial, condition, step, result } = parts;
    let fold = Fold { variable, second, range: target, initial, condition, step, result };
    Ok(parser.node(at, Kind::Fold(Box::new(fold))))
}

fn variable_name(node: &Node) -> Result<Box<str>, Fault> {
    match &node.kind {
        Kind::Ident(name) => Ok(name.clone()),
        _ => Err((node.at, "argument must be a simple name".to_owned())),
    }
}

struct Parts {
    initial: Node,
    condition: Node,
    step: Node,
    result: Node,
}

struct Expansion<'p> {
    parser: &'p mut Parser,
    at: u32,
    variable: &'p str,
}

impl Expansion<'_> {
    fn constant(&mut self, literal: Literal) -> Node {
        self.parser.node(self.at, Kind::Constant(literal))
    }

    fn ident(&mut self, name: &str) -> Node {
        self.parser.node(self.at, Kind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Node {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, arguments: Vec<Node>) -> Node {
        self.parser.call(self.at, function, arguments)
    }

    /// A loop that always runs to the end.
    fn whole(&mut self, initial: Node, step: Node) -> Parts {
        let condition = self.constant(Literal::Bool(true));
        let result = self.accumulator();
        Parts { initial, condition, step, result }
    }

    /// `test ? step : @result`
    fn only_if(&mut self, test: Node, step: Node) -> Node {
        let unchanged = self.accumulator();
        self.call("_?_:_", vec![test, step, unchanged])
    }

    /// `@result + [value]`
    fn append(&mut self, value: Node) -> Node {
        let accumulator = self.accumulator();
        let list = Kind::List(vec![Item { value, optional: false }]);
        let list = self.parser.node(self.at, list);
        self.call("_+_", vec![accumulator, list])
    }

    fn empty_list(&mut self) -> Node {
        self.parser.node(self.at, Kind::List(Vec::new()))
    }

    fn empty_map(&mut self) -> Node {
        self.parser.node(self.at, Kind::Map(Vec::new()))
    }

    /// `cel.@mapInsert(@result, key, value)`
    fn insert(&mut self, value: Node) -> Node {
        let accumulator = self.accumulator();
        let key = self.ident(self.variable);
        self.call("cel.@mapInsert", vec![accumulator, key, value])
    }

    /// `cel.@mapInsert(@result, entries)`
    fn insert_entries(&mut self, entries: Node) -> Node {
        let accumulator = self.accumulator();
        self.call("cel.@mapInsert", vec![accumulator, entries])
    }
}

fn all(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.constant(Literal::Bool(true));
    let accumulator = expand.accumulator();
    let condition = expand.call("@not_strictly_false", vec![accumulator]);
    let accumulator = expand.accumulator();
    let step = expand.call("_&&_", vec![accumulator, arguments[0].clone()]);
    let result = expand.accumulator();
    Parts { initial, condition, step, result }
}

fn exists(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.constant(Literal::Bool(false));
    let accumulator = expand.accumulator();
    let negated = expand.call("!_", vec![accumulator]);
    let condition = expand.call("@not_strictly_false", vec![negated]);
    let accumulator = expand.accumulator();
    let step = expand.call("_||_", vec![accumulator, arguments[0].clone()]);
    let result = expand.accumulator();
    Parts { initial, condition, step, result }
}

fn exists_one(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.constant(Literal::Int(0));
    let condition = expand.constant(Literal::Bool(true));
    let one = expand.constant(Literal::Int(1));
    let accumulator = expand.accumulator();
    let more = expand.call("_+_", vec![accumulator, one]);
    let step = expand.only_if(arguments[0].clone(), more);
    let one = expand.constant(Literal::Int(1));
    let accumulator = expand.accumulator();
    let result = expand.call("_==_", vec![accumulator, one]);
    Parts { initial, condition, step, result }
}

fn map(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.empty_list();
    let step = expand.append(arguments[0].clone());
    expand.whole(initial, step)
}

fn map_filtered(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.empty_list();
    let step = expand.append(arguments[1].clone());
    let step = expand.only_if(arguments[0].clone(), step);
    expand.whole(initial, step)
}

fn filter(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.empty_list();
    let item = expand.ident(expand.variable);
    let step = expand.append(item);
    let step = expand.only_if(arguments[0].clone(), step);
    expand.whole(initial, step)
}

fn transform_list(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    map(expand, arguments)
}

fn transform_list_filtered(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    map_filtered(expand, arguments)
}

fn transform_map(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.empty_map();
    let step = expand.insert(arguments[0].clone());
    expand.whole(initial, step)
}

fn transform_map_filtered(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.empty_map();
    let step = expand.insert(arguments[1].clone());
    let step = expand.only_if(arguments[0].clone(), step);
    expand.whole(initial, step)
}

fn transform_map_entry(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.empty_map();
    let step = expand.insert_entries(arguments[0].clone());
    expand.whole(initial, step)
}

fn transform_map_entry_filtered(expand: &mut Expansion<'_>, arguments: &[Node]) -> Parts {
    let initial = expand.empty_map();
    let step = expand.insert_entries(arguments[1].clone());
    let step = expand.only_if(arguments[0].clone(), step);
    expand.whole(initial, step)
}

/// Whether the body of `optMap` gives a value or an optional.
#[derive(Clone, Copy, PartialEq)]
enum Wrap {
    Value,
    Optional,
}

/// `target.hasValue() ? optional.of(let v = target.value() in body) : optional.none()`
fn optional_map(
    parser: &mut Parser,
    at: u32,
    target: Node,
    arguments: Vec<Node>,
    wrap: Wrap,
) -> Result<Node, Fault> {
    let variable = variable_name(&arguments[0])?;
    let mut arguments = arguments.into_iter().skip(1);
    let body = arguments.next().expect("optMap is expanded with two arguments");
    let mut expand = Expansion { parser, at, variable: &variable };
    // The value is bound by folding over a list of one.
    let bound = expand.call("@optionalList", vec![target]);
    let none = expand.call("optional.none", Vec::new());
    let condition = expand.constant(Literal::Bool(true));
    let step = match wrap {
        Wrap::Value => expand.call("optional.of", vec![body]),
        Wrap::Optional => body,
    };
    let result = expand.accumulator();
    let fold = Fold {
        variable: variable.clone(),
        second: None,
        range: bound,
        initial: none,
        condition,
        step,
        result,
    };
    Ok(parser.node(at, Kind::Fold(Box::new(fold))))
}

/// A list that is sorted stands twice in the tree; sorting what was sorted doubles it.
const NODES_MAX: u32 = 100_000;

/// `list.sortBy(x, key)`: the keys are mapped first, then the list is sorted by them.
fn sort_by(
    parser: &mut Parser,
    at: u32,
    target: Node,
    arguments: Vec<Node>,
) -> Result<Node, Fault> {
    if parser.ids() > NODES_MAX {
        return Err((at, format!("expression has more than {NODES_MAX} parts")));
    }
    let copy = renumbered(parser, &target);
    let keys = member(parser, at, copy, "map", arguments)?;
    Ok(parser.call(at, "@sortByKeys", vec![target, keys]))
}

/// A copy with ids of its own.
fn renumbered(parser: &mut Parser, node: &Node) -> Node {
    let mut copy = |node: &Node| Box::new(renumbered(parser, node));
    let kind = match &node.kind {
        Kind::Constant(_) | Kind::Ident(_) => node.kind.clone(),
        Kind::Select { operand, field } => {
            Kind::Select { operand: copy(operand), field: field.clone() }
        }
        Kind::Test { operand, field } => {
            Kind::Test { operand: copy(operand), field: field.clone() }
        }
        Kind::Call { target, function, arguments } => Kind::Call {
            target: target.as_deref().map(&mut copy),
            function: function.clone(),
            arguments: arguments.iter().map(|argument| *copy(argument)).collect(),
        },
        Kind::List(items) => Kind::List(
            items
                .iter()
                .map(|item| Item { value: *copy(&item.value), optional: item.optional })
                .collect(),
        ),
        Kind::Map(entries) => Kind::Map(
            entries
                .iter()
                .map(|entry| Entry {
                    key: *copy(&entry.key),
                    value: *copy(&entry.value),
                    optional: entry.optional,
                })
                .collect(),
        ),
        Kind::Message { name, fields } => Kind::Message {
            name: name.clone(),
            fields: fields.iter().map(|(name, value)| (name.clone(), *copy(value))).collect(),
        },
        Kind::Fold(fold) => Kind::Fold(Box::new(Fold {
            variable: fold.variable.clone(),
            second: fold.second.clone(),
            range: *copy(&fold.range),
            initial: *copy(&fold.initial),
            condition: *copy(&fold.condition),
            step: *copy(&fold.step),
            result: *copy(&fold.result),
        })),
    };
    parser.node(node.at, kind)
}
