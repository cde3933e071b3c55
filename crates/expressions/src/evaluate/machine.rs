//! The walk over the tree. Recursion is bounded by the height of the tree.

use std::rc::Rc;

use crate::check::{Checked, Resolution};
use crate::compile::{Scope, VariableKind};
use crate::cost;
use crate::declared::{Declared, ListKind};
use crate::evaluate::{Binding, Bindings, Failure, Fuel};
use crate::library::authorization::{Authorization, Check};
use crate::library::optionals;
use crate::syntax::{ACCUMULATOR, Entry, Fold, Item, Kind, Literal, Node};
use crate::value::{ANYTHING, Key, List, Map, Opaque, Text, Value, from_json};

type Outcome<'a> = Result<Value<'a>, Failure>;

const IDENT_COST: u64 = 1;
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;

pub(crate) struct Machine<'a, 'b> {
    checked: &'a Checked,
    scope: &'a Scope,
    bindings: &'b Bindings<'a>,
    limit: u64,
    pub(crate) cost: u64,
    pub(crate) fuel: Fuel,
    /// What folds bind; an accumulator may hold a failure that a later item absorbs.
    locals: Vec<Outcome<'a>>,
}

impl<'a, 'b> Machine<'a, 'b> {
    pub(crate) fn new(
        checked: &'a Checked,
        scope: &'a Scope,
        bindings: &'b Bindings<'a>,
        (limit, fuel): (u64, Fuel),
    ) -> Machine<'a, 'b> {
        let locals = Vec::new();
        Machine { checked, scope, bindings, limit, cost: 0, fuel, locals }
    }

    pub(crate) fn run(&mut self) -> Outcome<'a> {
        self.node(&self.checked.root)
    }

    fn pay(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Failure::call_cost()) } else { Ok(()) }
    }

    fn node(&mut self, node: &'a Node) -> Outcome<'a> {
        match &node.kind {
            Kind::Constant(literal) => Ok(constant(literal)),
            Kind::Ident(_) => self.ident(node),
            Kind::Select { operand, field } => self.select(node, operand, field),
            Kind::Test { operand, field } => self.test(operand, field),
            Kind::Call { target, function, arguments } => match function.as_ref() {
                "_&&_" if arguments.len() == 2 => self.logical(arguments, false),
                "_||_" if arguments.len() == 2 => self.logical(arguments, true),
                "_?_:_" => self.conditional(arguments),
                "@not_strictly_false" => self.not_strictly_false(&arguments[0]),
                "_[_]" => self.index(node, arguments),
                _ => self.call(node, target.as_deref(), arguments),
            },
            Kind::List(items) => self.list(node, items),
            Kind::Map(entries) => self.map(node, entries),
            Kind::Message { .. } => Err(Failure::no_such_overload()),
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn resolution(&self, node: &Node) -> &'a Resolution {
        &self.checked.resolutions[node.id as usize]
    }

    fn ident(&mut self, node: &'a Node) -> Outcome<'a> {
        match self.resolution(node) {
            Resolution::Local(slot) => {
                self.pay(IDENT_COST)?;
                self.locals[*slot].clone()
            }
            Resolution::Variable(index) => {
                self.pay(IDENT_COST)?;
                self.variable(*index)
            }
            Resolution::Type(name) => Ok(Value::Type(name.as_ref().into())),
            _ => Err(Failure::no_such_overload()),
        }
    }

    fn variable(&mut self, index: usize) -> Outcome<'a> {
        let variable = &self.scope.variables[index];
        let declared: &'a Declared = match &variable.kind {
            VariableKind::Declared(declared) | VariableKind::Optional(declared) => declared,
            _ => ANYTHING,
        };
        let is_optional = matches!(variable.kind, VariableKind::Optional(_));
        match self.bindings.get(&variable.name) {
            Some(Binding::Json(json)) if is_optional => Ok(Value::some(from_json(json, declared)?)),
            Some(Binding::Json(json)) => from_json(json, declared),
            Some(Binding::Value(value)) => Ok(value.clone()),
            Some(Binding::Absent) if is_optional => Ok(Value::Optional(None)),
            Some(Binding::Authorizer(host)) => {
                let authorization = Authorization { host: *host, service_account: None };
                Ok(Value::opaque(Opaque::Authorizer(authorization)))
            }
            Some(Binding::ResourceCheck(host, resource)) => {
                let check = Check::resource(*host, resource.clone());
                Ok(Value::opaque(Opaque::Check(check)))
            }
            Some(Binding::Absent) | None => {
                let name = &variable.name;
                Err(Failure::evaluation(format!("no such attribute(s): {name}")))
            }
        }
    }

    /// What qualifies a computed value costs one more than what qualifies a variable.
    fn qualify_cost(operand: &Node) -> u64 {
        match &operand.kind {
            Kind::Ident(_) | Kind::Select { .. } => 1,
            Kind::Call { function, .. } if matches!(function.as_ref(), "_[_]" | "_?_:_") => 1,
            _ => 2,
        }
    }

    fn select(&mut self, node: &'a Node, operand: &'a Node, field: &str) -> Outcome<'a> {
        match self.resolution(node) {
            Resolution::Variable(index) => {
                self.pay(IDENT_COST)?;
                return self.variable(*index);
            }
            Resolution::Type(name) => return Ok(Value::Type(name.as_ref().into())),
            _ => {}
        }
        let value = self.node(operand)?;
        self.pay(Machine::qualify_cost(operand))?;
        select_field(&value, field)
    }

    fn test(&mut self, operand: &'a Node, field: &str) -> Outcome<'a> {
        match self.node(operand)? {
            Value::Map(map) => Ok(Value::Bool(map.field(field).is_some())),
            Value::Optional(None) => Ok(Value::Bool(false)),
            Value::Optional(Some(inner)) => match inner.as_ref() {
                Value::Map(map) => Ok(Value::Bool(map.field(field).is_some())),
                _ => Err(Failure::no_such_overload()),
            },
            _ => Err(Failure::no_such_overload()),
        }
    }

    /// `&&` and `||`: the side that decides absorbs a failure of the other.
    fn logical(&mut self, arguments: &'a [Node], decisive: bool) -> Outcome<'a> {
        let left = self.node(&arguments[0]);
        match &left {
            Ok(Value::Bool(value)) if *value == decisive => return left,
            Err(failure) if failure.is_budget() => return left,
            _ => {}
        }
        let right = self.node(&arguments[1]);
        match (&left, &right) {
            (_, Ok(Value::Bool(value))) if *value == decisive => right,
            (_, Err(failure)) if failure.is_budget() => right,
            (Err(_), _) => left,
            (Ok(Value::Bool(_)), Ok(Value::Bool(_)) | Err(_)) => right,
            _ => Err(Failure::no_such_overload()),
        }
    }

    fn conditional(&mut self, arguments: &'a [Node]) -> Outcome<'a> {
        match self.node(&arguments[0])? {
            Value::Bool(true) => self.node(&arguments[1]),
            Value::Bool(false) => self.node(&arguments[2]),
            _ => Err(Failure::no_such_overload()),
        }
    }

    fn not_strictly_false(&mut self, argument: &'a Node) -> Outcome<'a> {
        let value = self.node(argument);
        self.pay(1)?;
        match value {
            Err(failure) if failure.is_budget() => Err(failure),
            Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
            _ => Ok(Value::Bool(true)),
        }
    }

    fn index(&mut self, _node: &'a Node, arguments: &'a [Node]) -> Outcome<'a> {
        let value = self.node(&arguments[0])?;
        let key = self.node(&arguments[1])?;
        self.pay(Machine::qualify_cost(&arguments[0]))?;
        optionals::index(&value, &key)
    }

    fn call(
        &mut self,
        node: &'a Node,
        target: Option<&'a Node>,
        arguments: &'a [Node],
    ) -> Outcome<'a> {
        let (function, target) = match self.resolution(node) {
            Resolution::Function(function) | Resolution::Step(function) => (*function, target),
            // The target is the first part of the function's name.
            Resolution::Namespaced(function) => (*function, None),
            Resolution::Free(function) => return self.free(function, arguments),
            _ => return Err(Failure::no_such_overload()),
        };
        let nodes = target.into_iter().chain(arguments);
        if target.iter().count() + arguments.len() == 2 {
            let mut nodes = nodes;
            let (Some(left), Some(right)) = (nodes.next(), nodes.next()) else {
                return Err(Failure::no_such_overload());
            };
            let values = [self.accumulator_or(node, left)?, self.node(right)?];
            return self.apply(function, values);
        }
        let values: Vec<Value<'a>> =
            nodes.map(|argument| self.accumulator_or(node, argument)).collect::<Result<_, _>>()?;
        self.apply_all(function, values)
    }

    fn apply(
        &mut self,
        function: &'static crate::library::Function,
        values: [Value<'a>; 2],
    ) -> Outcome<'a> {
        if function.name == "cel.@mapInsert" {
            return self.apply_all(function, values.into());
        }
        let cost = cost::before(&mut self.fuel, function, &values)?;
        self.pay(cost)?;
        let values = match (function.name, values) {
            // Appending to a list nobody else holds does not copy it.
            (
                "_+_",
                [
                    Value::List(List::Made { items, kind: kind @ ListKind::Atomic }),
                    Value::List(List::Made { items: one, .. }),
                ],
            ) if one.len() == 1 => return self.append(items, kind, one[0].clone()),
            (_, values) => values,
        };
        let result = (function.call)(&mut self.fuel, &values)?;
        self.pay(cost::after(function, &result))?;
        Ok(result)
    }

    fn append(
        &mut self,
        mut items: Rc<Vec<Value<'a>>>,
        kind: &'a ListKind,
        item: Value<'a>,
    ) -> Outcome<'a> {
        if Rc::get_mut(&mut items).is_none() {
            self.fuel.burn_items(items.len())?;
        }
        self.fuel.burn_items(1)?;
        Rc::make_mut(&mut items).push(item);
        Ok(Value::List(List::Made { items, kind }))
    }

    fn apply_all(
        &mut self,
        function: &'static crate::library::Function,
        values: Vec<Value<'a>>,
    ) -> Outcome<'a> {
        let cost = cost::before(&mut self.fuel, function, &values)?;
        self.pay(cost)?;
        if function.name == "cel.@mapInsert" {
            return self.insert(values);
        }
        let result = (function.call)(&mut self.fuel, &values)?;
        self.pay(cost::after(function, &result))?;
        Ok(result)
    }

    /// The accumulator is moved out while a step changes it, so that it is not copied.
    fn accumulator_or(&mut self, call: &Node, argument: &'a Node) -> Outcome<'a> {
        if let (Resolution::Step(_), Resolution::Local(slot), Kind::Ident(name)) =
            (self.resolution(call), self.resolution(argument), &argument.kind)
            && name.as_ref() == ACCUMULATOR
        {
            self.pay(IDENT_COST)?;
            return std::mem::replace(&mut self.locals[*slot], Ok(Value::Null));
        }
        self.node(argument)
    }

    /// `cel.@mapInsert(map, key, value)` and `cel.@mapInsert(map, entries)`
    fn insert(&mut self, values: Vec<Value<'a>>) -> Outcome<'a> {
        let mut values = values.into_iter();
        let Some(Value::Map(Map::Made(mut made))) = values.next() else {
            return Err(Failure::no_such_overload());
        };
        let pairs = match (values.next(), values.next()) {
            (Some(key), Some(value)) => vec![(key, value)],
            (Some(Value::Map(entries)), None) => entries
                .keys()
                .into_iter()
                .map(|key| match entries.get(&key) {
                    Some(value) => Ok((key, value?)),
                    None => Err(Failure::no_such_overload()),
                })
                .collect::<Result<_, _>>()?,
            _ => return Err(Failure::no_such_overload()),
        };
        if Rc::get_mut(&mut made).is_none() {
            self.fuel.burn_items(made.len())?;
        }
        self.fuel.burn_items(pairs.len())?;
        let map = Rc::make_mut(&mut made);
        for (key, value) in pairs {
            if map.insert(Key::of(&key)?, value).is_some() {
                return Err(duplicate_key(&key));
            }
        }
        Ok(Value::Map(Map::Made(made)))
    }

    /// A call that costs what its arguments cost.
    fn free(
        &mut self,
        function: &'static crate::library::Function,
        arguments: &'a [Node],
    ) -> Outcome<'a> {
        let values: Vec<Value<'a>> =
            arguments.iter().map(|argument| self.node(argument)).collect::<Result<_, _>>()?;
        (function.call)(&mut self.fuel, &values)
    }

    fn list(&mut self, node: &'a Node, items: &'a [Item]) -> Outcome<'a> {
        if !matches!(self.resolution(node), Resolution::Constant) {
            self.pay(LIST_COST)?;
        }
        self.fuel.burn_items(items.len())?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let value = self.node(&item.value)?;
            match value {
                Value::Optional(inner) if item.optional => {
                    values.extend(inner.map(Rc::unwrap_or_clone));
                }
                _ if item.optional => return Err(Failure::no_such_overload()),
                value => values.push(value),
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, node: &'a Node, entries: &'a [Entry]) -> Outcome<'a> {
        if !matches!(self.resolution(node), Resolution::Constant) {
            self.pay(MAP_COST)?;
        }
        self.fuel.burn_items(entries.len())?;
        let mut map = std::collections::BTreeMap::new();
        for entry in entries {
            let key = self.node(&entry.key)?;
            let value = match self.node(&entry.value)? {
                Value::Optional(inner) if entry.optional => match inner {
                    Some(inner) => Rc::unwrap_or_clone(inner),
                    None => continue,
                },
                _ if entry.optional => return Err(Failure::no_such_overload()),
                value => value,
            };
            if map.insert(Key::of(&key)?, value).is_some() {
                return Err(duplicate_key(&key));
            }
        }
        Ok(Value::Map(Map::Made(Rc::new(map))))
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.node(&fold.range)?;
        let initial = self.node(&fold.initial)?;
        let base = self.locals.len();
        self.locals.push(Ok(initial));
        self.locals.push(Ok(Value::Null));
        if fold.second.is_some() {
            self.locals.push(Ok(Value::Null));
        }
        let looped = self.walk(fold, &range, base);
        let result = match looped {
            Ok(()) => self.node(&fold.result),
            Err(failure) => Err(failure),
        };
        self.locals.truncate(base);
        result
    }

    fn walk(&mut self, fold: &'a Fold, range: &Value<'a>, base: usize) -> Result<(), Failure> {
        match range {
            Value::List(list) => {
                for index in 0..list.len() {
                    self.fuel.burn(1)?;
                    let Some(item) = list.get(index) else { break };
                    let position = Value::Int(index as i64);
                    let bound = match fold.second {
                        Some(_) => (Ok(position), Some(item)),
                        None => (item, None),
                    };
                    if !self.turn(fold, base, bound)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                let keys = map.keys();
                self.fuel.burn_items(keys.len())?;
                for key in keys {
                    let second = match fold.second {
                        Some(_) => map.get(&key),
                        None => None,
                    };
                    if !self.turn(fold, base, (Ok(key), second))? {
                        break;
                    }
                }
                Ok(())
            }
            _ => Err(Failure::no_such_overload()),
        }
    }

    /// One turn of a loop; false when the loop is over.
    fn turn(
        &mut self,
        fold: &'a Fold,
        base: usize,
        (first, second): (Outcome<'a>, Option<Outcome<'a>>),
    ) -> Result<bool, Failure> {
        self.locals[base + 1] = first;
        if let Some(second) = second {
            self.locals[base + 2] = second;
        }
        let runs_to_the_end = matches!(fold.condition.kind, Kind::Constant(Literal::Bool(true)));
        if !runs_to_the_end && matches!(self.node(&fold.condition)?, Value::Bool(false)) {
            return Ok(false);
        }
        let stepped = self.node(&fold.step);
        match &stepped {
            Err(failure) if failure.is_budget() || runs_to_the_end => Err(failure.clone()),
            _ => {
                self.locals[base] = stepped;
                Ok(true)
            }
        }
    }
}

fn duplicate_key(key: &Value<'_>) -> Failure {
    let shown = crate::library::conversions::show(key);
    Failure::evaluation(format!("insert failed: key {shown} already exists"))
}

fn constant(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Borrowed(text)),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_ref().into()),
    }
}

fn select_field<'a>(value: &Value<'a>, field: &str) -> Outcome<'a> {
    match value {
        Value::Map(map) => map.field(field).unwrap_or_else(|| Err(optionals::no_such_key(field))),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => match inner.as_ref() {
            Value::Map(map) => match map.field(field) {
                Some(value) => Ok(Value::some(value?)),
                None => Ok(Value::Optional(None)),
            },
            _ => Err(Failure::no_such_overload()),
        },
        _ => Err(Failure::no_such_overload()),
    }
}
