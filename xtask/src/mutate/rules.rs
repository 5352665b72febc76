//! Which mutants a source file has, and the file with all of them in it, each behind a switch.
//!
//! Building a mutant costs a hundred times what running it costs. So all are built at once: `a + b` becomes
//! `match (a, b) { (l, r) => if on(7) { l - r } else { l + r } }`, and a run says which one is on (Untch,
//! Offutt and Harrold, "Mutation analysis using mutant schemata", 1993).

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ItemFn, Lit, Stmt, UnOp};

use super::faults::Fault;
use crate::Error;

/// A file with its mutants.
pub struct Switched {
    pub text: String,
    /// What each mutant is, the first being the one of the number that was asked for.
    pub mutants: Vec<String>,
}

/// Puts the mutants of a file into its text, numbered from `first` on.
pub fn switch(path: &str, text: &str, first: usize, faults: &[Fault]) -> Result<Switched, Error> {
    let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
    let mut switcher = Switcher {
        path,
        text,
        first,
        mutants: Vec::new(),
        seen: BTreeMap::new(),
        function: String::new(),
        edits: Vec::new(),
    };
    for fault in faults.iter().filter(|fault| fault.file == path) {
        let at = fault.place(text)?;
        let on = switcher.named(format!("{path}: {}", fault.name));
        let open = format!("if {on} {{ {} }} else {{ ", fault.replacement);
        switcher.insert(at.start, Side::Open, open);
    }
    switcher.visit_file(&file);
    for fault in faults.iter().filter(|fault| fault.file == path) {
        switcher.insert(fault.place(text)?.end, Side::Close, " }".into());
    }
    Ok(switcher.finish())
}

/// What an edit does at its place. At one place closings come before openings, so that they nest.
#[derive(Clone, Copy, PartialEq, PartialOrd, Eq, Ord)]
enum Side {
    Close,
    Open,
    Replace,
}

struct Switcher<'a> {
    path: &'a str,
    text: &'a str,
    first: usize,
    mutants: Vec<String>,
    /// How often a mutant of the same words was seen.
    seen: BTreeMap<String, usize>,
    function: String,
    edits: Vec<(Range<usize>, Side, String)>,
}

impl Switcher<'_> {
    fn source(&self, span: Span) -> &str {
        &self.text[span.byte_range()]
    }

    /// A mutant's condition.
    fn named(&mut self, name: String) -> String {
        let times = self.seen.entry(name.clone()).or_default();
        *times += 1;
        let name = match *times {
            1 => name,
            times => format!("{name} ({times})"),
        };
        self.mutants.push(name);
        format!(
            "cuda_std::mutant::on({})",
            self.first + self.mutants.len() - 1
        )
    }

    /// The condition of the mutant in which `from` becomes `to`.
    fn mutant(&mut self, from: &str, to: &str) -> String {
        let one_line = |text: &str| {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            match words.char_indices().nth(60) {
                Some((end, _)) => format!("{}..", &words[..end]),
                None => words,
            }
        };
        self.named(format!(
            "{}: {}: {} -> {}",
            self.path,
            self.function,
            one_line(from),
            one_line(to)
        ))
    }

    fn insert(&mut self, at: usize, side: Side, text: String) {
        self.edits.push((at..at, side, text));
    }

    fn replace(&mut self, range: Range<usize>, text: &str) {
        self.edits.push((range, Side::Replace, text.into()));
    }

    /// Puts text before and after an expression, and visits what is in it.
    fn wrap(&mut self, expr: &Expr, open: &str, close: String) {
        let range = expr.span().byte_range();
        self.insert(range.start, Side::Open, open.into());
        visit::visit_expr(self, expr);
        self.insert(range.end, Side::Close, close);
    }

    /// `a op b` as one of other operators.
    fn binary(&mut self, expr: &Expr, op: &BinOp, others: &[&str]) {
        let (whole, op_text) = (
            self.source(expr.span()).to_owned(),
            self.source(op.span()).to_owned(),
        );
        let at = op.span().byte_range();
        let place = at.start - expr.span().byte_range().start;
        let changed =
            |other: &str| whole[..place].to_owned() + other + &whole[place + op_text.len()..];
        let (by, open, between) = match is_comparison(op) {
            true => ("*", "(match (&(", "), &("),
            false => ("", "(match (", ", "),
        };
        let mut close = format!(
            "{} {{ (mutant_l, mutant_r) => ",
            if by.is_empty() { ")" } else { "))" }
        );
        for other in others {
            let on = self.mutant(&whole, &changed(other));
            close += &format!("if {on} {{ {by}mutant_l {other} {by}mutant_r }} else ");
        }
        close += &format!("{{ {by}mutant_l {op_text} {by}mutant_r }} }})");
        self.replace(at, between);
        self.wrap(expr, open, close);
    }

    /// `a && b` as `a || b`, and the other way round. The right side stays where it is: it may not be evaluated.
    fn lazy(&mut self, expr: &Expr, op: &BinOp, other: &str, unless: &str) {
        let (whole, op_text) = (
            self.source(expr.span()).to_owned(),
            self.source(op.span()).to_owned(),
        );
        let on = self.mutant(&whole, &whole.replacen(&op_text, other, 1));
        let between = format!(") {{ mutant_l => if mutant_l {unless} {on} {{ ");
        self.replace(op.span().byte_range(), &between);
        self.wrap(expr, "(match (", " } else { mutant_l } })".into());
    }

    /// `place op= value` with another operator.
    fn assigning(&mut self, expr: &syn::ExprBinary, other: &str) {
        let (whole, op) = (
            self.source(expr.span()).to_owned(),
            self.source(expr.op.span()).to_owned(),
        );
        let place = self.source(expr.left.span()).to_owned();
        let on = self.mutant(&whole, &whole.replacen(&op, other, 1));
        let start = expr.span().byte_range().start;
        self.replace(start..expr.op.span().byte_range().end, "match (");
        visit::visit_expr(self, &expr.right);
        let close = format!(
            ") {{ mutant_r => if {on} {{ {place} {other} mutant_r }} else {{ {place} {op} mutant_r }} }}"
        );
        self.insert(expr.span().byte_range().end, Side::Close, close);
    }

    /// A condition that is no comparison, as its opposite.
    fn condition(&mut self, cond: &Expr) {
        let is_plain = matches!(
            cond,
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Path(_) | Expr::Field(_)
        );
        if is_plain {
            let text = self.source(cond.span()).to_owned();
            let on = self.mutant(&text, &format!("!{text}"));
            let range = cond.span().byte_range();
            self.insert(range.start, Side::Open, "(match (".into());
            self.visit_expr(cond);
            let close = format!(") {{ mutant_v => mutant_v != {on} }})");
            self.insert(range.end, Side::Close, close);
        } else {
            self.visit_expr(cond);
        }
    }

    /// A value as another.
    fn value(&mut self, expr: &Expr, other: &str) {
        let text = self.source(expr.span()).to_owned();
        let on = self.mutant(&text, other);
        let range = expr.span().byte_range();
        let switched = format!("(if {on} {{ {other} }} else {{ {text} }})");
        self.replace(range, &switched);
    }

    /// A function that returns something simple at once.
    fn returns(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let returned = match &signature.output {
            syn::ReturnType::Default if block.stmts.is_empty() => return,
            syn::ReturnType::Default => "()".to_owned(),
            syn::ReturnType::Type(_, ty) => self.source(ty.span()).to_owned(),
        };
        let values: &[&str] = match &*returned {
            "()" => &["()"],
            "bool" => &["true", "false"],
            "u32" | "usize" | "u64" | "i32" => &["0", "1"],
            "f32" => &["0.0", "1.0"],
            "Pair" => &["Pair::ZERO"],
            "Partial" => &["Partial::EMPTY"],
            _ => return,
        };
        let after_brace = block.brace_token.span.open().byte_range().end;
        for value in values {
            let on = self.mutant("its result", value);
            let text = format!(" if {on} {{ return {value}; }}");
            self.insert(after_brace, Side::Open, text);
        }
    }

    fn finish(mut self) -> Switched {
        // Stable: at one place, what is outside was opened first, and closed last.
        self.edits
            .sort_by_key(|(range, side, _)| (range.start, *side));
        let mut text = String::new();
        let mut end = 0;
        for (range, _, inserted) in &self.edits {
            text += &self.text[end..range.start];
            text += inserted;
            end = range.end;
        }
        text += &self.text[end..];
        Switched {
            text,
            mutants: self.mutants,
        }
    }
}

fn is_comparison(op: &BinOp) -> bool {
    use BinOp::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(op, Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_))
}

/// Whether this is a test, or not for the host.
fn is_left_out(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Ident>()
                    .is_ok_and(|word| word == "test")
    })
}

impl<'ast> Visit<'ast> for Switcher<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_left_out(&item.attrs) {
            let outer = std::mem::replace(&mut self.function, item.sig.ident.to_string());
            self.returns(&item.sig, &item.block);
            self.visit_block(&item.block);
            self.function = outer;
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = self.source(item.self_ty.span());
        let name = of.split('<').next().unwrap_or(of).to_owned();
        let outer = std::mem::replace(&mut self.function, name);
        visit::visit_item_impl(self, item);
        self.function = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let name = format!("{}::{}", self.function, item.sig.ident);
        let outer = std::mem::replace(&mut self.function, name);
        self.returns(&item.sig, &item.block);
        self.visit_block(&item.block);
        self.function = outer;
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_left_out(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let outer = std::mem::replace(&mut self.function, item.sig.ident.to_string());
        if let Some(block) = &item.default {
            self.visit_block(block);
        }
        self.function = outer;
    }

    // What is computed when compiling has no switch.
    fn visit_variant(&mut self, _: &'ast syn::Variant) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_generic_param(&mut self, _: &'ast syn::GenericParam) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.condition(&expr.cond);
        self.visit_block(&expr.then_branch);
        if let Some((_, other)) = &expr.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, expr: &'ast syn::ExprWhile) {
        self.condition(&expr.cond);
        self.visit_block(&expr.body);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        let deleted = match stmt {
            Stmt::Expr(
                Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) | Expr::Unsafe(_),
                Some(_),
            ) => true,
            // Without its step a loop does not end, which shows nothing.
            Stmt::Expr(Expr::Binary(binary), Some(_)) => !matches!(*binary.right, Expr::Lit(_)),
            _ => false,
        };
        if !deleted {
            return visit::visit_stmt(self, stmt);
        }
        let range = stmt.span().byte_range();
        let text = self.source(stmt.span()).to_owned();
        let on = self.mutant(&text, "nothing");
        self.insert(range.start, Side::Open, format!("if !{on} {{ "));
        visit::visit_stmt(self, stmt);
        self.insert(range.end, Side::Close, " }".into());
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => {
                use BinOp::*;
                let has_let = |side: &Expr| {
                    matches!(side, Expr::Let(_))
                        || matches!(side, Expr::Binary(inner) if matches!(*inner.left, Expr::Let(_)) || matches!(*inner.right, Expr::Let(_)))
                };
                match &binary.op {
                    And(_) | Or(_) if has_let(&binary.left) || has_let(&binary.right) => {
                        visit::visit_expr(self, expr);
                    }
                    And(_) => self.lazy(expr, &binary.op, "||", "!="),
                    Or(_) => self.lazy(expr, &binary.op, "&&", "=="),
                    AddAssign(_) => self.assigning(binary, "-="),
                    SubAssign(_) => self.assigning(binary, "+="),
                    MulAssign(_) => self.assigning(binary, "/="),
                    DivAssign(_) => self.assigning(binary, "*="),
                    op => {
                        let others: &[&str] = match op {
                            Add(_) => &["-"],
                            Sub(_) => &["+"],
                            Mul(_) => &["+"],
                            Div(_) => &["*"],
                            Rem(_) => &["/"],
                            BitAnd(_) => &["|"],
                            BitOr(_) => &["&"],
                            BitXor(_) => &["&"],
                            Shl(_) => &[">>"],
                            Shr(_) => &["<<"],
                            Lt(_) => &["<=", ">="],
                            Le(_) => &["<", ">"],
                            Gt(_) => &[">=", "<="],
                            Ge(_) => &[">", "<"],
                            Eq(_) => &["!="],
                            Ne(_) => &["=="],
                            _ => return visit::visit_expr(self, expr),
                        };
                        self.binary(expr, op, others);
                    }
                }
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                let (text, op) = (
                    self.source(expr.span()).to_owned(),
                    self.source(unary.op.span()).to_owned(),
                );
                let on = self.mutant(&text, self.source(unary.expr.span()).to_owned().as_str());
                self.replace(unary.op.span().byte_range(), "(match (");
                visit::visit_expr(self, &unary.expr);
                let close =
                    format!(") {{ mutant_v => if {on} {{ mutant_v }} else {{ {op}mutant_v }} }})");
                self.insert(expr.span().byte_range().end, Side::Close, close);
            }
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(int) => {
                    if let Ok(value) = int.base10_parse::<u64>() {
                        let other = format!("{}{}", value.wrapping_add(1), int.suffix());
                        self.value(expr, &other);
                    }
                }
                Lit::Float(float) => {
                    let is_zero = float.base10_parse::<f64>().is_ok_and(|value| value == 0.0);
                    self.value(expr, if is_zero { "1.0" } else { "0.0" });
                }
                _ => {}
            },
            Expr::Path(path)
                if path
                    .path
                    .segments
                    .last()
                    .is_some_and(|last| last.ident == "NEG_INFINITY") =>
            {
                self.value(expr, "0.0");
            }
            Expr::MethodCall(call)
                if call.args.len() == 1
                    && matches!(&*call.method.to_string(), "min" | "max")
                    // That of numbers, and not one of the type at hand.
                    && self.source(call.receiver.span()) != "self" =>
            {
                let name = call.method.to_string();
                let other = if name == "min" { "max" } else { "min" };
                let text = self.source(expr.span()).to_owned();
                let at = call.method.span().byte_range();
                let from = text.clone();
                let start = expr.span().byte_range().start;
                let to = format!(
                    "{}{other}{}",
                    &text[..at.start - start],
                    &text[at.end - start..]
                );
                let on = self.mutant(&from, &to);
                // `a.min(b)` becomes `match (a, (b)) { .. }`: the dot, the name and the turbofish go.
                self.replace(call.dot_token.span().byte_range().start..at.end, ", ");
                let close = format!(
                    ") {{ (mutant_l, mutant_r) => if {on} {{ mutant_l.{other}(mutant_r) }} else {{ mutant_l.{name}(mutant_r) }} }})"
                );
                self.wrap(expr, "(match (", close);
            }
            _ => visit::visit_expr(self, expr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
const LIMIT: u32 = 1 + 2;
impl Sum {
    fn few(self, more: u32) -> bool {
        let [first, ..] = [more; 4];
        self.tell();
        first - 1 < LIMIT && !self.is_empty()
    }
}
#[cfg(test)]
mod tests {
    fn left_out() -> bool { 1 < 2 }
}
";

    #[test]
    fn every_operator_value_result_and_statement_outside_of_constants_and_tests_is_changed() {
        let switched = switch("sum.rs", SOURCE, 7, &[]).unwrap();
        let mut mutants: Vec<_> = switched
            .mutants
            .iter()
            .map(|name| name.strip_prefix("sum.rs: Sum::few: ").unwrap())
            .collect();
        mutants.sort_unstable();
        let expected = [
            "!self.is_empty() -> self.is_empty()",
            "1 -> 2",
            "first - 1 -> first + 1",
            "first - 1 < LIMIT && !self.is_empty() -> first - 1 < LIMIT || !self.is_empty()",
            "first - 1 < LIMIT -> first - 1 <= LIMIT",
            "first - 1 < LIMIT -> first - 1 >= LIMIT",
            "its result -> false",
            "its result -> true",
            "self.tell(); -> nothing",
        ];
        assert_eq!(mutants, expected);
        // Numbered from the first, and still Rust.
        for number in 7..7 + expected.len() {
            assert_eq!(switched.text.matches(&format!("::on({number})")).count(), 1);
        }
        syn::parse_file(&switched.text).unwrap();
    }

    #[test]
    fn mutants_of_the_same_words_are_told_apart() {
        let switched = switch("a.rs", "fn f() { g(); g(); }", 0, &[]).unwrap();
        let deleted = |name: &&String| name.contains("g();");
        let names: Vec<_> = switched.mutants.iter().filter(deleted).collect();
        assert_eq!(
            names,
            ["a.rs: f: g(); -> nothing", "a.rs: f: g(); -> nothing (2)"]
        );
    }

    #[test]
    fn a_fault_that_no_longer_applies_is_an_error_that_names_it() {
        let fault = Fault {
            name: "no barrier",
            file: "a.rs",
            after: "fn f",
            text: "sync();",
            replacement: "",
        };
        let error = switch("a.rs", "fn f() {}", 0, &[fault])
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("`no barrier` no longer applies: a.rs"),
            "{error}"
        );
    }
}
