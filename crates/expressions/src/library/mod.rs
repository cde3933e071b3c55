//! The functions and operators, by family: their signatures, what they cost and what they do.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/environment/base.go names the libraries.

pub(crate) mod addresses;
pub(crate) mod authorization;
pub(crate) mod conversions;
pub(crate) mod formats;
pub(crate) mod formatting;
pub(crate) mod lists;
pub(crate) mod operators;
pub(crate) mod optionals;
pub(crate) mod patterns;
pub(crate) mod quantities;
pub(crate) mod semantic_versions;
pub(crate) mod sets;
mod signatures;
pub(crate) mod strings;
pub(crate) mod times;
pub(crate) mod urls;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use crate::library::signatures::Signature;

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::value::Value;

/// What a function does with its arguments; a receiver is the first of them.
pub(crate) type Call = for<'a, 'v> fn(&mut Fuel, &'v [Value<'a>]) -> Result<Value<'a>, Failure>;

/// A function or an operator.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Each as `receiver.name(parameters) result`; capital letters are type parameters.
    pub(crate) overloads: &'static [&'static str],
    pub(crate) cost: Cost,
    pub(crate) call: Call,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

const FAMILIES: [&[Function]; 17] = [
    operators::FUNCTIONS,
    operators::INTERNAL,
    conversions::FUNCTIONS,
    strings::FUNCTIONS,
    lists::KUBERNETES,
    lists::FUNCTIONS,
    sets::FUNCTIONS,
    patterns::FUNCTIONS,
    times::FUNCTIONS,
    optionals::FUNCTIONS,
    urls::FUNCTIONS,
    addresses::FUNCTIONS,
    quantities::FUNCTIONS,
    semantic_versions::FUNCTIONS,
    formats::FUNCTIONS,
    authorization::FUNCTIONS,
    formatting::FUNCTIONS,
];

struct Row {
    function: &'static Function,
    signatures: Vec<Signature>,
}

/// Functions of one name in several families become one with all their signatures.
static TABLE: LazyLock<HashMap<&'static str, Row>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Row> = HashMap::new();
    for function in FAMILIES.into_iter().flatten() {
        let parsed = function.overloads.iter().map(|text| Signature::parse(function.name, text));
        let row =
            table.entry(function.name).or_insert_with(|| Row { function, signatures: Vec::new() });
        row.signatures.extend(parsed);
    }
    table
});

pub(crate) fn find(name: &str) -> Option<&'static Function> {
    TABLE.get(name).map(|row| row.function)
}

pub(crate) fn signatures(function: &Function) -> &'static [Signature] {
    TABLE.get(function.name).map(|row| row.signatures.as_slice()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn every_function_appears_in_the_corpus() {
        let corpus = concat!(
            include_str!("../../tests/corpus/values.txt"),
            include_str!("../../tests/corpus/costs.txt"),
            include_str!("../../tests/suite/admission.rs"),
        );
        let missing: Vec<&&str> = TABLE
            .keys()
            .filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
            .filter(|name| !name.contains('@') && !corpus.contains(&format!("{name}(")))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn no_function_is_in_two_families() {
        let count: usize = super::FAMILIES.iter().map(|family| family.len()).sum();
        assert_eq!(count, TABLE.len());
    }
}
