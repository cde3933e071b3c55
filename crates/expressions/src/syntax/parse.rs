//! Tokens to a tree.

use crate::problems::Problems;
use crate::syntax::tokens::{Fault, Placed, Token, tokenize};
use crate::syntax::{CHARACTERS_MAX, DEPTH_MAX, Entry, Item, Kind, Literal, Node, macros};

/// The tree and how many ids it uses.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Node,
    pub(crate) ids: u32,
}

/// Words that are no names of variables.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(crate) fn parse(source: &str) -> Result<Tree, Problems> {
    let length = source.chars().count();
    if length > CHARACTERS_MAX {
        let message = format!(
            "expression code point size exceeds limit: size: {length}, limit {CHARACTERS_MAX}"
        );
        return Err(Problems::locate("", vec![(0, message)]));
    }
    parse_tree(source).map_err(|fault| Problems::locate(source, vec![fault]))
}

fn parse_tree(source: &str) -> Result<Tree, Fault> {
    let tokens = tokenize(source)?;
    let mut parser = Parser { tokens, position: 0, ids: 0, depth: 0 };
    let root = parser.expression()?;
    if *parser.peek() != Token::End {
        return parser.unexpected("<EOF>");
    }
    let height = height(&root, 0);
    if height > DEPTH_MAX * 2 {
        return Err((0, too_deep()));
    }
    Ok(Tree { root, ids: parser.ids })
}

fn too_deep() -> String {
    format!("expression recursion limit exceeded: {DEPTH_MAX}")
}

pub(crate) struct Parser {
    tokens: Vec<Placed>,
    position: usize,
    ids: u32,
    depth: usize,
}

impl Parser {
    pub(crate) fn node(&mut self, at: u32, kind: Kind) -> Node {
        self.ids += 1;
        Node { id: self.ids - 1, at, kind }
    }

    pub(crate) fn ids(&self) -> u32 {
        self.ids
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.position].token
    }

    fn at(&self) -> u32 {
        self.tokens[self.position].at
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        if token != Token::End {
            self.position += 1;
        }
        token
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.position += 1;
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Fault> {
        if self.accept(symbol) { Ok(()) } else { self.unexpected(&format!("'{symbol}'")) }
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, Fault> {
        let found = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
            Token::Ident(name) => name.to_string(),
            Token::Integer(value) => value.to_string(),
            Token::Literal(Literal::String(text)) => format!("\"{text}\""),
            Token::Literal(Literal::Bool(value)) => value.to_string(),
            Token::Literal(Literal::Null) => "null".to_owned(),
            Token::Literal(_) => "literal".to_owned(),
        };
        let message = format!("Syntax error: mismatched input '{found}' expecting {wanted}");
        Err((self.at(), message))
    }

    /// `a ? b : c`, and everything that binds more tightly.
    pub(crate) fn expression(&mut self) -> Result<Node, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err((self.at(), too_deep()));
        }
        let condition = self.chain("||", "_||_")?;
        let at = self.at();
        let node = if self.accept("?") {
            let yes = self.chain("||", "_||_")?;
            self.expect(":")?;
            let no = self.expression()?;
            self.call(at, "_?_:_", vec![condition, yes, no])
        } else {
            condition
        };
        self.depth -= 1;
        Ok(node)
    }

    pub(crate) fn call(&mut self, at: u32, function: &str, arguments: Vec<Node>) -> Node {
        self.node(at, Kind::Call { target: None, function: function.into(), arguments })
    }

    /// `a || b || c` or `a && b && c`, as a balanced tree so that long chains are not deep.
    fn chain(&mut self, symbol: &str, function: &str) -> Result<Node, Fault> {
        let mut terms = vec![self.chain_term(symbol)?];
        let mut places = Vec::new();
        loop {
            let at = self.at();
            if !self.accept(symbol) {
                break;
            }
            places.push(at);
            terms.push(self.chain_term(symbol)?);
        }
        Ok(self.balance(function, &mut terms.into_iter(), &places))
    }

    fn chain_term(&mut self, symbol: &str) -> Result<Node, Fault> {
        if symbol == "||" { self.chain("&&", "_&&_") } else { self.relation() }
    }

    fn balance(
        &mut self,
        function: &str,
        terms: &mut std::vec::IntoIter<Node>,
        places: &[u32],
    ) -> Node {
        if places.is_empty() {
            return terms.next().expect("a chain has one term more than symbols");
        }
        let middle = places.len().div_ceil(2) - usize::from(places.len() % 2 == 1);
        let middle = middle.min(places.len() - 1);
        let left = self.balance(function, terms, &places[..middle]);
        let right = self.balance(function, terms, &places[middle + 1..]);
        self.call(places[middle], function, vec![left, right])
    }

    fn relation(&mut self) -> Result<Node, Fault> {
        let symbols = [
            ("<=", "_<=_"),
            (">=", "_>=_"),
            ("==", "_==_"),
            ("!=", "_!=_"),
            ("<", "_<_"),
            (">", "_>_"),
            ("in", "@in"),
        ];
        self.left_associative(&symbols, Parser::sum)
    }

    fn sum(&mut self) -> Result<Node, Fault> {
        self.left_associative(&[("+", "_+_"), ("-", "_-_")], Parser::product)
    }

    fn product(&mut self) -> Result<Node, Fault> {
        self.left_associative(&[("*", "_*_"), ("/", "_/_"), ("%", "_%_")], Parser::unary)
    }

    fn left_associative(
        &mut self,
        symbols: &[(&str, &str)],
        operand: fn(&mut Parser) -> Result<Node, Fault>,
    ) -> Result<Node, Fault> {
        let mut left = operand(self)?;
        loop {
            let at = self.at();
            let Some((symbol, function)) = symbols.iter().find(|(symbol, _)| self.is(symbol))
            else {
                return Ok(left);
            };
            self.expect(symbol)?;
            let right = operand(self)?;
            left = self.call(at, function, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Result<Node, Fault> {
        let at = self.at();
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.is(symbol) && !self.starts_number(symbol) {
                self.accept(symbol);
                count += 1;
            }
            if count > 0 {
                let operand = self.member()?;
                // Two of a kind cancel each other.
                let negated = count % 2 == 1;
                return Ok(if negated { self.call(at, function, vec![operand]) } else { operand });
            }
        }
        self.member()
    }

    /// A minus directly before a number is part of the number.
    fn starts_number(&self, symbol: &str) -> bool {
        symbol == "-"
            && matches!(
                self.tokens.get(self.position + 1).map(|placed| &placed.token),
                Some(Token::Integer(_) | Token::Literal(Literal::Double(_)))
            )
    }

    fn member(&mut self) -> Result<Node, Fault> {
        let mut node = self.primary()?;
        loop {
            let at = self.at();
            if self.accept(".") {
                let name = self.name()?;
                if self.is("(") {
                    let call_at = self.at();
                    let arguments = self.arguments()?;
                    node = macros::member(self, call_at, node, &name, arguments)?;
                } else {
                    node = self.node(at, Kind::Select { operand: Box::new(node), field: name });
                }
            } else if self.accept(".?") {
                let name_at = self.at();
                let name = self.name()?;
                let name: Box<str> = name;
                let field = Kind::Constant(Literal::String(name.as_ref().into()));
                let field = self.node(name_at, field);
                node = self.call(at, "_?._", vec![node, field]);
            } else if self.accept("[") {
                let index = self.expression()?;
                self.expect("]")?;
                node = self.call(at, "_[_]", vec![node, index]);
            } else if self.accept("[?") {
                let index = self.expression()?;
                self.expect("]")?;
                node = self.call(at, "_[?_]", vec![node, index]);
            } else if self.is("{") && node.qualified_name().is_some() {
                node = self.message(node)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn name(&mut self) -> Result<Box<str>, Fault> {
        match self.take() {
            Token::Ident(name) => Ok(name),
            _ => {
                self.position -= usize::from(self.position > 0);
                self.unexpected("IDENTIFIER")
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Node>, Fault> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.is(")") {
            arguments.push(self.expression()?);
            if !self.accept(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }

    fn message(&mut self, name: Node) -> Result<Node, Fault> {
        let at = self.at();
        let name = name.qualified_name().unwrap_or_default().into();
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.is("}") {
            let field = self.name()?;
            self.expect(":")?;
            fields.push((field, self.expression()?));
            if !self.accept(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(self.node(at, Kind::Message { name, fields }))
    }

    fn primary(&mut self) -> Result<Node, Fault> {
        let at = self.at();
        match self.take() {
            Token::Literal(literal) => Ok(self.node(at, Kind::Constant(literal))),
            Token::Integer(value) => match i64::try_from(value) {
                Ok(value) => Ok(self.node(at, Kind::Constant(Literal::Int(value)))),
                Err(_) => Err((at, "invalid int literal".to_owned())),
            },
            Token::Symbol("-") => match self.take() {
                Token::Integer(value) => {
                    let value = 0i64.wrapping_sub_unsigned(value);
                    Ok(self.node(at, Kind::Constant(Literal::Int(value))))
                }
                Token::Literal(Literal::Double(value)) => {
                    Ok(self.node(at, Kind::Constant(Literal::Double(-value))))
                }
                _ => Err((at, "Syntax error: extraneous input '-'".to_owned())),
            },
            Token::Symbol("(") => {
                let node = self.expression()?;
                self.expect(")")?;
                Ok(node)
            }
            Token::Symbol("[") => self.list(at, false),
            Token::Symbol("[?") => self.list(at, true),
            Token::Symbol("{") => self.map(at, false),
            Token::Symbol("{?") => self.map(at, true),
            Token::Symbol(".") => self.primary(),
            Token::Ident(name) => self.identifier(at, name),
            _ => {
                self.position -= usize::from(*self.peek() != Token::End && self.position > 0);
                self.unexpected(
                    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', \
                     NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
                )
            }
        }
    }

    fn identifier(&mut self, at: u32, name: Box<str>) -> Result<Node, Fault> {
        if RESERVED.contains(&name.as_ref()) {
            return Err((at, format!("reserved identifier: {name}")));
        }
        if !self.is("(") {
            return Ok(self.node(at, Kind::Ident(name)));
        }
        let call_at = self.at();
        let arguments = self.arguments()?;
        if name.as_ref() == "has" {
            return macros::has(self, call_at, arguments);
        }
        Ok(self.call(call_at, &name, arguments))
    }

    fn list(&mut self, at: u32, first_optional: bool) -> Result<Node, Fault> {
        let mut items = Vec::new();
        let mut optional = first_optional;
        while optional || !self.is("]") {
            optional |= self.accept("?");
            items.push(Item { value: self.expression()?, optional });
            optional = false;
            if !self.accept(",") {
                break;
            }
        }
        self.expect("]")?;
        Ok(self.node(at, Kind::List(items)))
    }

    fn map(&mut self, at: u32, first_optional: bool) -> Result<Node, Fault> {
        let mut entries = Vec::new();
        let mut optional = first_optional;
        while optional || !self.is("}") {
            optional |= self.accept("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push(Entry { key, value: self.expression()?, optional });
            optional = false;
            if !self.accept(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(self.node(at, Kind::Map(entries)))
    }
}

/// How deep the tree is; stops counting well past the limit.
fn height(node: &Node, above: usize) -> usize {
    let here = above + 1;
    if here > DEPTH_MAX * 2 {
        return here;
    }
    let below = |nodes: &mut dyn Iterator<Item = &Node>| {
        nodes.map(|child| height(child, here)).max().unwrap_or(here)
    };
    match &node.kind {
        Kind::Constant(_) | Kind::Ident(_) => here,
        Kind::Select { operand, .. } | Kind::Test { operand, .. } => height(operand, here),
        Kind::Call { target, arguments, .. } => {
            below(&mut target.as_deref().into_iter().chain(arguments))
        }
        Kind::List(items) => below(&mut items.iter().map(|item| &item.value)),
        Kind::Map(entries) => {
            below(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value]))
        }
        Kind::Message { fields, .. } => below(&mut fields.iter().map(|(_, value)| value)),
        Kind::Fold(fold) => below(
            &mut [&fold.range, &fold.initial, &fold.condition, &fold.step, &fold.result]
                .into_iter(),
        ),
    }
}
