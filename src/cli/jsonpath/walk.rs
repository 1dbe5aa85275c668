//! Fills templates in. Pure; bounded in work and in text, since `..` and ranges multiply.

use serde_json::{Number, Value};

use super::{Comparison, Filter, JsonPathError, Part, Problem, Slice, Step, To};

/// Values that are looked at, and bytes that are printed.
const WORK_MAX: usize = 16 << 20;

type Walked<T> = Result<T, JsonPathError>;

/// Fills the parts in.
pub(super) fn render(parts: &[Part], document: &Value) -> Walked<String> {
    let mut walk = Walk { out: String::new(), left: WORK_MAX };
    walk.parts(parts, document)?;
    Ok(walk.out)
}

struct Walk {
    out: String,
    /// Of [`WORK_MAX`].
    left: usize,
}

impl Walk {
    fn spend(&mut self, work: usize) -> Walked<()> {
        let left = self.left.checked_sub(work);
        self.left = left.ok_or(JsonPathError { at: 0, problem: Problem::TooMuch })?;
        Ok(())
    }

    fn parts(&mut self, parts: &[Part], current: &Value) -> Walked<()> {
        for part in parts {
            match part {
                Part::Text(text) => self.print(text)?,
                Part::Find(path) => {
                    for (number, value) in self.find(path, current)?.into_iter().enumerate() {
                        if number > 0 {
                            self.print(" ")?;
                        }
                        self.print(&text_of(value))?;
                    }
                }
                Part::Range(path, inner) => {
                    for value in self.find(path, current)? {
                        self.parts(inner, value)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn print(&mut self, text: &str) -> Walked<()> {
        self.spend(text.len() + 1)?;
        self.out.push_str(text);
        Ok(())
    }

    fn find<'v>(&mut self, path: &'v [Step], current: &'v Value) -> Walked<Vec<&'v Value>> {
        self.walk(path, vec![current])
    }

    fn walk<'v>(&mut self, path: &'v [Step], from: Vec<&'v Value>) -> Walked<Vec<&'v Value>> {
        path.iter().try_fold(from, |values, step| self.step(step, &values))
    }

    fn step<'v>(&mut self, step: &'v Step, values: &[&'v Value]) -> Walked<Vec<&'v Value>> {
        let mut found = vec![];
        match step {
            Step::Union(paths) => {
                for path in paths {
                    found.extend(self.walk(path, values.to_vec())?);
                }
            }
            // A text is one, however many values it stands behind.
            Step::Literal(literal) => found.push(literal),
            other => {
                for value in values {
                    let before = found.len();
                    self.take_step(other, value, &mut found)?;
                    self.spend(found.len() - before + 1)?;
                }
            }
        }
        Ok(found)
    }

    fn take_step<'v>(&mut self, step: &'v Step, value: &'v Value, found: &mut Vec<&'v Value>) -> Walked<()> {
        match step {
            Step::Field(name) => found.extend(value.get(name)),
            Step::Quoted(name) => found.extend(value.get(name).or_else(|| along(name, value))),
            Step::Children => found.extend(children(value)),
            Step::Below => below(value, found),
            Step::Slice(slice) => sliced(*slice, value, found)?,
            Step::Filter(filter) => {
                for one in list(value, filter.at)? {
                    if self.passes(filter, one)? {
                        found.push(one);
                    }
                }
            }
            Step::Union(_) | Step::Literal(_) => {}
        }
        Ok(())
    }

    /// As kubectl: an element without the compared field is not among those that are found, also by `!=`.
    fn passes(&mut self, filter: &Filter, element: &Value) -> Walked<bool> {
        let left = self.find(&filter.left, element)?;
        let Some((comparison, right)) = &filter.compared else { return Ok(!left.is_empty()) };
        let right = self.find(right, element)?;
        match (left.as_slice(), right.as_slice()) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => Ok(holds(left, *comparison, right)),
            _ => Err(JsonPathError { at: filter.at, problem: Problem::ManyCompared }),
        }
    }
}

/// The value at the end of a name with points in it.
fn along<'v>(name: &str, value: &'v Value) -> Option<&'v Value> {
    name.split('.').try_fold(value, |value, part| value.get(part))
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(all) => Box::new(all.iter()),
        Value::Object(all) => Box::new(all.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn below<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    if children(value).next().is_some() {
        found.push(value);
        children(value).for_each(|child| below(child, found));
    }
}

fn list(value: &Value, at: usize) -> Walked<&[Value]> {
    let kind = match value {
        Value::Array(all) => return Ok(all),
        Value::Null => return Ok(&[]),
        Value::Object(_) => "map",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
    };
    Err(JsonPathError { at, problem: Problem::NotAList(kind) })
}

fn sliced<'v>(slice: Slice, value: &'v Value, found: &mut Vec<&'v Value>) -> Walked<()> {
    let all = list(value, slice.at)?;
    if value.is_null() {
        return Ok(());
    }
    let wrong = |problem| Err(JsonPathError { at: slice.at, problem });
    let length = i64::try_from(all.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let from = from_end(slice.from.unwrap_or(0));
    let to = match slice.to {
        To::Next => from.saturating_add(1),
        To::End => length,
        To::Index(index) => from_end(index),
    };
    if from == to {
        return Ok(());
    }
    if !(0..length).contains(&from) {
        return wrong(Problem::OutOfBounds { index: from, length: all.len() });
    }
    if !(0..=length).contains(&to) {
        return wrong(Problem::OutOfBounds { index: to.saturating_sub(1), length: all.len() });
    }
    if from > to {
        return wrong(Problem::Backwards { from, to });
    }
    let (from, count) = (usize::try_from(from).unwrap_or(0), usize::try_from(to - from).unwrap_or(0));
    found.extend(all.iter().skip(from).take(count).step_by(slice.step));
    Ok(())
}

fn holds(left: &Value, comparison: Comparison, right: &Value) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => ordered(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (left, right) => (left == right).then_some(Equal),
    };
    match comparison {
        Comparison::Equal => order == Some(Equal),
        Comparison::NotEqual => order != Some(Equal),
        Comparison::Less => order == Some(Less),
        Comparison::LessOrEqual => matches!(order, Some(Less | Equal)),
        Comparison::Greater => order == Some(Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Greater | Equal)),
    }
}

fn ordered(left: &Number, right: &Number) -> Option<std::cmp::Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// A value as kubectl prints it.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().map_or_else(String::new, go_float),
        other => other.to_string(),
    }
}

/// Go's `%v` of a fraction.
fn go_float(number: f64) -> String {
    let text = format!("{number:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => number.to_string(),
    }
}
