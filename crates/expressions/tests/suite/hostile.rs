//! Rules that mean harm are refused by their estimate or stopped by the budget, in time.

use std::time::Duration;

use expressions::{Bindings, Budget, Declared, Expected, ListKind, RULE_COST_MAX, Scope, compile};
use serde_json::{Value, json};

/// Also where little is optimised, as in tests.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Evaluates over a list that fills a request; gives the estimate and the processor time it took:
/// what else runs on the machine does not count.
fn run(rule: &str, items: &Value) -> (u64, Duration) {
    let list = Declared::list(Declared::string(None, None), None, ListKind::Atomic);
    let program = compile(rule, &Scope::rule(&list), Expected::Any).unwrap();
    let start = processor_time();
    let mut budget = Budget::default();
    let _ = program.evaluate(&Bindings::rule(items, None), &mut budget);
    (program.estimate().max, processor_time() - start)
}

/// How long this thread has run.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn hostile_rules_are_stopped_in_time() {
    let small: Vec<String> = (0..300_000).map(|index| format!("item{index}")).collect();
    let empty = vec![""; 1_000_000];
    let long = vec!["é".repeat(1_500_000)];
    let rules = [
        "self.all(a, self.all(b, self.all(c, a != b || b != c)))",
        "self.map(a, self + self).size() > 0",
        "self.all(x, [self] == [self])",
        "self.all(x, self.indexOf('') == 0)",
        "self.all(x, self.isSorted())",
        "self.map(x, self.join(',')).size() > 0",
        "lists.range(100000000).size() > 0",
        "lists.range(10000).map(i, 'x').size() > 0",
        "lists.range(10000).map(i, lists.range(10000)).flatten().size() > 0",
        "lists.range(300000).all(i, '' != self[0])",
        "lists.range(300000).all(i, self[0].size() >= 0)",
        "lists.range(300000).all(i, 'a'.matches('a{' + string(i % 900) + '}' + string(i)) || true)",
        "self[0].findAll('.*[^A-Z]|[A-Z]').size() >= 0",
        "self.distinct().size() > 0",
        "self.sort().size() > 0",
        "sets.equivalent(self, self)",
        "'%s%s'.format([self, self]).size() > 0",
        "lists.range(300000).all(i, '%s'.format([self]).size() > 0)",
        "self.all(x, x.replace('', x).size() >= 0)",
    ];
    for items in [json!(small), json!(empty), json!(long)] {
        for rule in rules {
            let (_, took) = run(rule, &items);
            assert!(took < TIME_MAX, "{rule} took {took:?}");
        }
    }
}

/// What is cheap by its cost may not be done again and again: rules share what they may touch.
#[test]
fn many_rules_take_no_longer_than_one() {
    let items = json!((0..100_000).map(|index| format!("item{index}")).collect::<Vec<_>>());
    let list = Declared::list(Declared::string(None, None), None, ListKind::Atomic);
    for rule in ["[self] == [self]", "true", "self.isSorted()", "self == self"] {
        let program = compile(rule, &Scope::rule(&list), Expected::Bool).unwrap();
        let start = processor_time();
        let mut budget = Budget::default();
        let mut count = 0_u64;
        while program.decide(&Bindings::rule(&items, None), &mut budget).is_ok() {
            count += 1;
        }
        let took = processor_time() - start;
        assert!(budget.is_spent() && took < TIME_MAX, "{rule}: {took:?}, {count} times");
    }
}

#[test]
fn strings_that_double_are_stopped() {
    let doubling =
        (0..60).fold("'xxxxxxxxxx'".to_owned(), |rule, _| format!("[{rule}].map(x, x + x)[0]"));
    let (_, took) = run(&format!("{doubling}.size() > 0"), &json!(["a"]));
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn nested_loops_over_unbounded_lists_are_refused_by_their_estimate() {
    let (estimate, _) = run("self.all(a, self.all(b, a != b))", &json!(["a"]));
    assert!(estimate > RULE_COST_MAX);
}

#[test]
fn deep_nesting_is_refused_without_exhausting_the_stack() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{'a': ", "}"), ("!(", ")")] {
        let rule = format!("{}true{}", open.repeat(50_000 / open.len()), close.repeat(10_000));
        assert!(compile(&rule, &Scope::default(), Expected::Any).is_err());
    }
    let long = vec!["1"; 20_000].join(" + ");
    assert!(compile(&long, &Scope::default(), Expected::Any).is_err());
    let chain = vec!["true"; 10_000].join(" && ");
    assert!(compile(&chain, &Scope::default(), Expected::Bool).is_ok());
}

#[test]
fn the_deepest_rules_that_are_taken_evaluate_on_a_small_stack() {
    let sum = vec!["1"; 490].join(" + ");
    let loops = (0..160).fold("1".to_owned(), |rule, _| format!("[{rule}].map(x, x)[0]"));
    let nested = (0..120).fold("1".to_owned(), |rule, _| format!("[1].map(x, {rule})[0]"));
    let parentheses = format!("{}1{}", "(".repeat(240), ")".repeat(240));
    let lists = format!("{}1{}", "[".repeat(240), "]".repeat(240));
    let equal = format!("{lists} == {lists}");
    // As small as the threads of a server are.
    let run = move || {
        for rule in [sum, loops, nested, parentheses, equal] {
            match compile(&rule, &Scope::default(), Expected::Any) {
                Ok(program) => {
                    let mut budget = Budget::default();
                    program.evaluate(&Bindings::default(), &mut budget).unwrap();
                }
                Err(problems) => assert!(problems.to_string().contains("recursion limit")),
            }
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}
