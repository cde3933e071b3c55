//! Expressions made at random: none panics, none outspends its budget, and what the checker
//! accepts has no type error when it is evaluated. The generator starts from a fixed seed.

use expressions::{
    Bindings, Budget, Declared, Expected, FailureKind, ListKind, Property, Scope, compile,
};
use serde_json::json;

struct Generator {
    state: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bool,
    Int,
    Text,
    Ints,
    Texts,
}

const BOOL_LEAVES: &[&str] = &["true", "false", "self.flag", "has(self.name)", "has(self.none)"];
const INT_LEAVES: &[&str] = &["0", "1", "-7", "9223372036854775807", "self.count"];
const TEXT_LEAVES: &[&str] = &["''", "'abc'", "'é'", "self.name", "self.none", "'10Gi'"];
const INTS_LEAVES: &[&str] = &["[]", "[1, 2]", "self.counts"];
const TEXTS_LEAVES: &[&str] = &["['a']", "self.names", "['b', 'a']"];

// `$B` stands for an expression that gives a bool, `$I` an int, `$T` a text, `$L` a list of
// ints, `$S` a list of texts.
const BOOL_TEMPLATES: &[&str] = &[
    "$B && $B",
    "$B || $B",
    "!($B)",
    "$I < $I",
    "$T == $T",
    "$I == $I",
    "$L == $L",
    "$I in $L",
    "$S.exists(x, $T == x)",
    "$L.all(x, x > $I)",
    "$T.startsWith($T)",
    "$T.matches('a+')",
    "$T.matches($T)",
    "($B ? $B : $B)",
    "$S.isSorted()",
    "isQuantity($T)",
    "isIP($T)",
    "$L.exists_one(x, x == $I)",
    "sets.contains($S, $S)",
    "$L.all(i, v, i == v)",
    "isURL($T)",
    "isSemver($T)",
    "$S.exists(x, $S.all(y, x != y))",
    "$T.contains($T)",
    "format.dns1123Label().validate($T).hasValue()",
    "isCIDR($T)",
];
const INT_TEMPLATES: &[&str] = &[
    "($I + $I)",
    "($I - $I)",
    "($I * $I)",
    "($I / $I)",
    "($I % $I)",
    "size($T)",
    "($L).size()",
    "$T.indexOf($T)",
    "($L).sum()",
    "($L).max()",
    "($B ? $I : $I)",
    "int($T)",
    "$L[$I]",
    "$L.indexOf($I)",
    "$L[?$I].orValue($I)",
    "duration($T).getHours()",
    "quantity($T).asInteger()",
    "timestamp($T).getFullYear()",
    "semver($T).major()",
];
const TEXT_TEMPLATES: &[&str] = &[
    "($T + $T)",
    "$T.replace($T, $T)",
    "$T.substring($I)",
    "$T.charAt($I)",
    "$S.join($T)",
    "string($I)",
    "($B ? $T : $T)",
    "$T.lowerAscii()",
    "'%s %d'.format([$T, $I])",
    "$T.find($T)",
    "$S[$I]",
    "strings.quote($T)",
    "$T.trim()",
];
const INTS_TEMPLATES: &[&str] = &[
    "($L + $L)",
    "$L.filter(x, x > $I)",
    "$L.map(x, x + $I)",
    "$L.map(x, $B, x)",
    "$L.distinct()",
    "$L.sort()",
    "$L.reverse()",
    "$L.slice($I, $I)",
    "lists.range($I)",
    "$S.map(x, size(x))",
    "$L.transformList(i, v, i + v)",
    "[$L, $L].flatten()",
    "[$I, $I]",
];
const TEXTS_TEMPLATES: &[&str] = &[
    "($S + $S)",
    "$S.filter(x, $B)",
    "$S.map(x, x + $T)",
    "$T.split($T)",
    "$L.map(x, $T)",
    "$S.sortBy(x, size(x))",
    "$T.findAll($T)",
    "[$T, $T]",
];

impl Generator {
    fn below(&mut self, count: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % count
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len() as u64) as usize]
    }

    /// An expression of a kind; now and then of another, which the checker must find.
    fn expression(&mut self, kind: Kind, depth: u32) -> String {
        let kind = match self.below(200) {
            0 => Kind::Text,
            1 => Kind::Ints,
            _ => kind,
        };
        if depth == 0 {
            let leaves = match kind {
                Kind::Bool => BOOL_LEAVES,
                Kind::Int => INT_LEAVES,
                Kind::Text => TEXT_LEAVES,
                Kind::Ints => INTS_LEAVES,
                Kind::Texts => TEXTS_LEAVES,
            };
            return self.pick(leaves).to_owned();
        }
        let templates = match kind {
            Kind::Bool => BOOL_TEMPLATES,
            Kind::Int => INT_TEMPLATES,
            Kind::Text => TEXT_TEMPLATES,
            Kind::Ints => INTS_TEMPLATES,
            Kind::Texts => TEXTS_TEMPLATES,
        };
        let template = self.pick(templates);
        let mut parts = template.split('$');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let kind = match part.chars().next() {
                Some('B') => Kind::Bool,
                Some('I') => Kind::Int,
                Some('T') => Kind::Text,
                Some('L') => Kind::Ints,
                _ => Kind::Texts,
            };
            let below = self.below(u64::from(depth)) as u32;
            text.push_str(&self.expression(kind, below));
            text.push_str(&part[1..]);
        }
        text
    }
}

#[test]
fn ten_thousand_random_rules_keep_to_their_budget_and_their_types() {
    let text = || Declared::string(Some(30), None);
    let property = |name: &str, declared| Property {
        name: name.to_owned(),
        declared,
        required: false,
        has_default: false,
    };
    let declared = Declared::object(
        "object",
        vec![
            property("flag", Declared::Bool),
            property("count", Declared::Int),
            property("name", text()),
            property("none", text()),
            property("counts", Declared::list(Declared::Int, Some(50), ListKind::Atomic)),
            property("names", Declared::list(text(), Some(50), ListKind::Set)),
        ],
    );
    let names: Vec<String> = (0..50).map(|index| format!("name-{index}")).collect();
    let counts: Vec<i64> = (0..50).collect();
    let object = json!({
        "flag": true, "count": 5, "name": "web", "counts": counts, "names": names,
    });
    let scope = Scope::rule(&declared);
    let mut generator = Generator { state: 0x5eed_1234_5678_9abc };
    let (mut accepted, mut valued) = (0, 0);
    for _ in 0..10_000 {
        let rule = generator.expression(Kind::Bool, 7);
        let Ok(program) = compile(&rule, &scope, Expected::Bool) else { continue };
        accepted += 1;
        let mut budget = Budget::new(20_000, 1_000_000);
        let outcome = program.decide(&Bindings::rule(&object, None), &mut budget);
        match outcome {
            Ok(_) => {
                valued += 1;
                assert!(budget.spent <= 20_000, "{rule} cost {}", budget.spent);
            }
            Err(failure) => {
                assert_ne!(failure.kind, FailureKind::NoSuchOverload, "{rule}");
            }
        }
    }
    assert!(accepted > 5_000, "only {accepted} were accepted");
    assert!(valued > 2_000, "only {valued} gave a value");
}
