//! The kinds of fields that a configuration has, and how each is printed.

/// The Go type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `bool`
    Bool,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `uint32`, as `v1.VerbosityLevel`
    Unsigned,
    /// `float64`
    Float,
    /// A string, or a type made of one, by its Go name.
    Text(&'static str),
    /// `metav1.Duration`
    Duration,
    /// A duration, or its nanoseconds as a number.
    DurationOrNumber,
    /// `metav1.Time`
    Time,
    /// `resource.Quantity`
    Quantity,
    /// `[]string`
    TextList,
    /// `[]int32`
    Int32List,
    /// `map[string]string`
    TextMap,
    /// `map[string]bool`
    BoolMap,
    /// `map[string][]string`
    HeaderMap,
    /// `map[string]resource.Quantity`
    QuantityMap,
    /// A struct: its Go name and fields.
    Object(&'static str, &'static [Field]),
    /// A list of structs: the Go name and fields of each.
    ObjectList(&'static str, &'static [Field]),
}

/// When a field appears in the printed configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Printed {
    /// Go's `omitempty` on a plain value.
    UnlessZero,
    /// Go's `omitempty` on a pointer.
    UnlessNull,
    /// No `omitempty`.
    Always,
}

/// One row of the fields table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key in JSON and YAML.
    pub key: &'static str,
    /// Its Go type.
    pub kind: Kind,
    /// Its default as JSON text; empty for Go's zero value.
    pub default: &'static str,
    /// When it is printed, and with that whether zero means unset.
    pub printed: Printed,
}
