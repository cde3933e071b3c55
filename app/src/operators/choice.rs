//! Which operators are enabled, of all families.

use super::{ALL, Family, Operator};

/// What stands for all of them.
const EVERYTHING: &str = "all";

/// Operators, in the order of the table of families; never none.
#[derive(Clone)]
pub struct Choice {
    chosen: Vec<(&'static dyn Family, Vec<&'static Operator>)>,
}

impl Choice {
    /// Reads what `--enable` is given: names with commas between them.
    pub fn parse(text: &str) -> Result<Choice, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let known = every_name();
        if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
            return Err(format!(
                "there is no operator {unknown:?}; there are {}",
                known.join(", ")
            ));
        }
        let is_chosen = |operator: &&'static Operator| {
            names.iter().any(|name| [EVERYTHING, operator.name].contains(name))
        };
        let of = |family: &&'static dyn Family| {
            let operators: Vec<_> = family.operators().iter().filter(is_chosen).collect();
            (!operators.is_empty()).then_some((*family, operators))
        };
        Ok(Choice { chosen: ALL.iter().filter_map(of).collect() })
    }

    /// The family whose home is everybody's home.
    pub fn first(&self) -> &'static dyn Family {
        let (family, _) = self.chosen.first().expect("a choice must not be empty");
        *family
    }

    pub fn families(&self) -> impl Iterator<Item = (&'static dyn Family, Vec<&'static str>)> {
        let names = |operators: &[&'static Operator]| {
            operators.iter().map(|operator| operator.name).collect()
        };
        self.chosen.iter().map(move |(family, operators)| (*family, names(operators)))
    }

    pub fn operators(&self) -> impl Iterator<Item = (&'static dyn Family, &'static Operator)> {
        let chosen = self.chosen.iter();
        chosen.flat_map(|(family, operators)| operators.iter().map(|one| (*family, *one)))
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.operators().map(|(_, operator)| operator.name).collect()
    }
}

/// Everything that `--enable` knows.
pub fn every_name() -> Vec<&'static str> {
    let operators = ALL.iter().flat_map(|family| family.operators());
    operators.map(|operator| operator.name).chain([EVERYTHING]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_chosen_by_name() {
        let names = |text: &str| Choice::parse(text).map(|choice| choice.names());
        assert_eq!(names("jobset,trainer"), Ok(vec!["trainer", "jobset"]));
        assert_eq!(names("trainer"), Ok(vec!["trainer"]));
        assert!(names("all").is_ok_and(|all| all.len() >= 2));
        let refused = names("trainr").expect_err("there is none");
        assert!(refused.starts_with("there is no operator \"trainr\"; there are trainer, jobset"));
        assert!(names("").is_err());
    }
}
