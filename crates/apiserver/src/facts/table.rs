//! The rows of the tables of facts.

/// A built-in kind.
#[derive(Debug)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
    pub type_id: TypeId,
}

impl Kind {
    /// `v1`, or `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|one| one.name == name)
    }
}

/// A part of a resource with a path of its own: `pods/log`.
#[derive(Debug)]
pub struct Subresource {
    pub name: &'static str,
    /// What its bodies are; the group and version are the resource's own for most.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
    /// None where the kind is only query parameters, as `PodExecOptions`.
    pub type_id: Option<TypeId>,
}

/// Where a type is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(pub u16);

impl TypeId {
    pub fn get(self) -> &'static Type {
        &super::types()[usize::from(self.0)]
    }
}

/// An object of the API: a struct of Go.
#[derive(Debug)]
pub struct Type {
    /// In the published schema: `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// By name, so that they can be searched and merged with a sorted object.
    pub fields: &'static [Field],
    /// Whether an apply replaces the object whole.
    pub atomic: bool,
}

impl Type {
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.binary_search_by(|field| field.name.cmp(name)).ok().map(|at| &self.fields[at])
    }

    /// The name without its package: `Pod`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub go: Go,
    /// Whether Go leaves it out when it is empty. A struct that is a value is never empty, so
    /// this is false for one whatever its tag says.
    pub omit: bool,
    /// Whether the published schema requires it.
    pub required: bool,
    /// Its number in protobuf, within the struct that declares it; 0 for what is not encoded.
    pub pb: u16,
    /// None for most fields, which keeps the table small.
    pub rare: Option<&'static Rare>,
}

/// What few fields say.
#[derive(Clone, Copy, Debug)]
pub struct Rare {
    pub list: List,
    /// Whether an apply replaces the map whole.
    pub atomic: bool,
    /// Whether an apply merges the object though its type is atomic.
    pub granular: bool,
    pub patch: Patch,
    /// Empty where the elements of the list have none.
    pub merge_key: &'static str,
    pub default: SchemaDefault,
    /// The numbers in protobuf, the outermost first, of the structs around the field that JSON
    /// does not show: `emptyDir` of a volume is within `volumeSource`, which is number 2.
    pub inlined: &'static [u16],
}

impl Rare {
    pub const NONE: Rare = Rare {
        list: List::Atomic,
        atomic: false,
        granular: false,
        patch: Patch::Unsaid,
        merge_key: "",
        default: SchemaDefault::None,
        inlined: &[],
    };
}

impl Field {
    pub fn rare(&self) -> &'static Rare {
        self.rare.unwrap_or(&Rare::NONE)
    }

    pub fn list(&self) -> List {
        self.rare().list
    }

    pub fn patch(&self) -> Patch {
        self.rare().patch
    }

    pub fn inlined(&self) -> &'static [u16] {
        self.rare().inlined
    }

    pub fn merge_key(&self) -> &'static str {
        self.rare().merge_key
    }
}

/// How Go holds a field. It decides what is said when nothing was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    Pointer,
    Value,
    Slice,
    Map,
}

/// What JSON a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    String,
    Integer32,
    Integer64,
    Double,
    Boolean,
    /// Base64 in JSON.
    Bytes,
    /// RFC 3339 to the second, UTC.
    Time,
    /// RFC 3339 with six digits after the second, UTC.
    MicroTime,
    Quantity,
    IntOrString,
    /// Any object, kept as it is.
    RawObject,
    /// The set of fields of a manager.
    FieldsV1,
    /// Any value, kept as it is.
    Any,
    /// A schema, or a list of them.
    SchemaOrArray(TypeId),
    /// A schema, or a boolean.
    SchemaOrBool(TypeId),
    /// A schema, or a list of strings.
    SchemaOrStrings(TypeId),
    Object(TypeId),
    List(&'static Shape),
    Map(&'static Shape),
}

/// How an apply merges a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Replaced whole; also what is not a list.
    Atomic,
    Set,
    /// By these keys.
    Map(&'static [&'static str]),
}

/// How a strategic merge patch merges a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// Lists are replaced, objects merged.
    Unsaid,
    Merge,
    MergeRetainKeys,
    RetainKeys,
    Replace,
}

/// The default in the schema, where it is not the zero of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaDefault {
    None,
    String(&'static str),
    Integer(i64),
}
