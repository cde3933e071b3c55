//! What a call may cost, and how large its result may be.

use crate::cost::estimate::{Coster, Place, UNKNOWN, scalar_size};
use crate::cost::{Cost, Estimate, PATTERN, SCAN};
use crate::declared::Declared;
use crate::library::Function;
use crate::syntax::{Kind, Literal, Node};
use crate::types::Type;

const ONE: Estimate = Estimate::exactly(1);

impl<'c> Coster<'c> {
    pub(super) fn call_cost(
        &mut self,
        node: &'c Node,
        function: &Function,
        nodes: &[&'c Node],
    ) -> Estimate {
        let sizes: Vec<Estimate> = nodes.iter().map(|node| self.size_or_unknown(node)).collect();
        let first = sizes.first().copied().unwrap_or(ONE);
        let second = sizes.get(1).copied().unwrap_or(ONE);
        if function.name == "_[_]" {
            self.index(node, nodes[0]);
            return ONE;
        }
        match function.cost {
            Cost::One | Cost::Logical | Cost::Conditional => ONE,
            Cost::Fixed(cost) => Estimate::exactly(cost),
            Cost::Dyn => {
                self.set_size(node, self.size(nodes[0]));
                self.set_inside(node, self.inside(nodes[0]));
                ONE
            }
            Cost::Compare => compared(first, second),
            Cost::Order => self.ordered(nodes, first, second),
            Cost::Add => self.add(node, nodes, first, second),
            Cost::Member => match self.kind(nodes[1]) {
                Type::Map(..) => ONE,
                Type::List(_) => second,
                _ => second.union(ONE),
            },
            Cost::Contains => first.scale(SCAN).multiply(second.scale(SCAN)),
            Cost::Matches => {
                let result = Estimate { min: 0, max: first.max };
                if function.name != "matches" {
                    self.set_size(node, Some(result));
                }
                first.plus(ONE).scale(SCAN).multiply(second.scale(PATTERN))
            }
            // The affix is what is passed over.
            Cost::Affix => second.scale(SCAN),
            Cost::Scan(_) if function.name == "url" => first.scale(SCAN),
            // Upstream estimates a pass only for receivers, and these have none.
            Cost::Scan(_) | Cost::ScanTwice | Cost::ParseIp => ONE,
            Cost::Traverse => self.traverse(nodes[0], first),
            Cost::Size(index) => {
                let size = sizes.get(index).copied().unwrap_or(UNKNOWN);
                let flattens = function.name == "flatten";
                self.set_size(node, Some(if flattens { UNKNOWN } else { size }));
                at_least_one(size)
            }
            Cost::Sort => {
                self.set_size(node, Some(first));
                let rounds = Estimate::exactly(u64::from(first.max.max(2).ilog2()));
                at_least_one(first.multiply(rounds))
            }
            Cost::Square => {
                self.set_size(node, Some(Estimate { min: 0, max: first.max }));
                at_least_one(first.multiply(first))
            }
            Cost::Range => self.range(node, nodes[0]),
            Cost::Sets(factor) => first.multiply(second).times(factor).plus(ONE),
            _ => self.text_cost(node, function, nodes, &sizes),
        }
    }

    /// Functions that make strings, and those on addresses.
    fn text_cost(
        &mut self,
        node: &Node,
        function: &Function,
        nodes: &[&Node],
        sizes: &[Estimate],
    ) -> Estimate {
        let first = sizes.first().copied().unwrap_or(ONE);
        let second = sizes.get(1).copied().unwrap_or(ONE);
        let made = |coster: &mut Coster<'c>, size| coster.set_size(node, Some(size));
        match function.cost {
            Cost::Rewrite => {
                made(self, first);
                first.scale(SCAN)
            }
            Cost::Replace => {
                made(self, replaced(first, second, sizes.get(2).copied().unwrap_or(UNKNOWN)));
                first.scale(2.0 * SCAN)
            }
            Cost::Split => {
                made(self, Estimate { min: 0, max: first.max });
                first.scale(2.0 * SCAN)
            }
            Cost::Join => {
                let size = self.joined(node, first, sizes.get(1).copied());
                made(self, size);
                size.scale(SCAN)
            }
            Cost::Quote => {
                let max = first.max.saturating_mul(2).saturating_add(2);
                made(self, Estimate { min: first.min.saturating_add(2), max });
                first.scale(SCAN)
            }
            Cost::Format => {
                made(self, UNKNOWN);
                first.scale(SCAN)
            }
            Cost::ToString | Cost::ToBytes => {
                let max = first.max.saturating_mul(4).max(64);
                made(self, Estimate { min: 0, max });
                let passes = match (function.cost, self.kind(nodes[0])) {
                    (_, Type::Dyn) => true,
                    (Cost::ToString, kind) => matches!(kind, Type::Bytes),
                    (_, kind) => matches!(kind, Type::String),
                };
                if passes { first.scale(SCAN).union(ONE) } else { ONE }
            }
            Cost::ContainsIp => network().plus(network()).scale(SCAN).plus(self.parsed(nodes[1])),
            Cost::ContainsCidr => {
                let masked = network().scale(SCAN).plus(ONE);
                network().plus(network()).scale(SCAN).plus(masked).plus(self.parsed(nodes[1]))
            }
            Cost::Validate => at_least_one(second.scale(SCAN)),
            _ => ONE,
        }
    }

    /// What reading a string as an address costs; nothing where it is one already.
    fn parsed(&self, node: &Node) -> Estimate {
        match self.kind(node) {
            Type::String | Type::Dyn => self.size_or_unknown(node).scale(SCAN),
            _ => Estimate::default(),
        }
    }

    fn index(&mut self, node: &'c Node, operand: &'c Node) {
        let place = match self.place(operand) {
            Place::At(Declared::List { items, .. }) => Place::At(items.as_ref()),
            Place::At(Declared::Map { values, .. }) => Place::At(values.as_ref()),
            _ => Place::Unknown,
        };
        self.set_place(node, place);
        let value = self.inside(operand).map(|inside| inside.value);
        self.set_size(node, value);
    }

    fn ordered(&self, nodes: &[&Node], first: Estimate, second: Estimate) -> Estimate {
        let scalar = |node: &&Node| scalar_size(self.kind(node)).is_some();
        if nodes.iter().any(scalar) { ONE } else { compared(first, second).union(ONE) }
    }

    fn add(
        &mut self,
        node: &'c Node,
        nodes: &[&'c Node],
        first: Estimate,
        second: Estimate,
    ) -> Estimate {
        let scalar = |node: &&Node| scalar_size(self.kind(node)).is_some();
        if nodes.iter().any(scalar) {
            return ONE;
        }
        let size = first.plus(second);
        self.set_size(node, Some(size));
        if let (Some(left), Some(right)) = (self.inside(nodes[0]), self.inside(nodes[1])) {
            self.set_inside(node, Some(left.union(right)));
        }
        let is_list = nodes.iter().any(|node| matches!(self.kind(node), Type::List(_)));
        if is_list { ONE } else { size.scale(SCAN) }
    }

    /// Each item, and the characters of items that are strings.
    fn traverse(&self, target: &Node, size: Estimate) -> Estimate {
        match self.kind(target) {
            Type::List(items) => {
                let text = matches!(items.as_ref(), Type::String | Type::Bytes | Type::Dyn);
                let each = if text { ONE.plus(self.item_size(target).scale(SCAN)) } else { ONE };
                size.multiply(each)
            }
            _ => size.scale(SCAN),
        }
    }

    fn item_size(&self, list: &Node) -> Estimate {
        match (self.place(list), self.inside(list)) {
            (Place::At(Declared::List { items, .. }), _) => {
                Estimate { min: 0, max: items.max_elements() }
            }
            (_, Some(inside)) => inside.value,
            _ => UNKNOWN,
        }
    }

    fn joined(&self, node: &Node, count: Estimate, separator: Option<Estimate>) -> Estimate {
        let Kind::Call { target: Some(list), .. } = &node.kind else { return UNKNOWN };
        let between =
            Estimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        let separators = separator.unwrap_or_default().multiply(between);
        count.multiply(self.item_size(list)).plus(separators)
    }

    fn range(&mut self, node: &Node, argument: &Node) -> Estimate {
        let count = match &argument.kind {
            Kind::Constant(Literal::Int(count)) => {
                Estimate::exactly(u64::try_from(*count).unwrap_or(0))
            }
            _ => UNKNOWN,
        };
        self.set_size(node, Some(count));
        at_least_one(count)
    }
}

fn at_least_one(size: Estimate) -> Estimate {
    Estimate { min: size.min.max(1), max: size.max.max(1) }
}

/// The bytes of an address.
fn network() -> Estimate {
    Estimate { min: 4, max: 16 }
}

/// The shorter side decides.
fn compared(left: Estimate, right: Estimate) -> Estimate {
    let max = left.max.min(right.max);
    Estimate { min: max.min(1), max }.scale(SCAN)
}

/// The size of a text in which a part is replaced as often as can be.
fn replaced(text: Estimate, from: Estimate, to: Estimate) -> Estimate {
    let max = if from.min == 0 {
        text.max.saturating_add(1).saturating_mul(to.max).saturating_add(text.max)
    } else if to.max <= from.min {
        text.max
    } else {
        text.max.div_ceil(from.min).saturating_mul(to.max)
    };
    let min = if from.max == 0 {
        text.min.saturating_add(1).saturating_mul(to.min).saturating_add(text.min)
    } else if from.max <= to.min {
        text.min
    } else {
        text.min.div_ceil(from.max).saturating_mul(to.min)
    };
    Estimate { min, max }
}
