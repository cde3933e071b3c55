//! An object that nobody has looked at for a while, in little room: its text, compressed. JSON as
//! maps takes ten times the room of its text, and objects of a kind are much alike: behind the text
//! of another one (`Model`) that of an object is compressed to an eighth.

use std::cell::RefCell;
use std::sync::Arc;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::object::Object;

/// An object as it is held.
#[derive(Clone)]
pub enum Held {
    Whole(Arc<Object>),
    Packed(Packed),
}

impl Held {
    pub fn revision(&self) -> u64 {
        match self {
            Held::Whole(object) => object.revision,
            Held::Packed(packed) => packed.revision,
        }
    }

    pub fn whole(self) -> Arc<Object> {
        match self {
            Held::Whole(object) => object,
            Held::Packed(packed) => Arc::new(packed.unpack()),
        }
    }
}

/// Unpacking takes longer than anybody should be kept out of a cache.
pub fn whole(held: Vec<Held>) -> Vec<Arc<Object>> {
    held.into_iter().map(Held::whole).collect()
}

#[derive(Clone)]
pub struct Packed {
    pub revision: u64,
    /// How long the text is.
    length: u32,
    text: Arc<[u8]>,
    model: Option<Arc<Model>>,
}

/// The text of an object that others are like: what is compressed before them, each time alike.
pub struct Model {
    text: Box<[u8]>,
    /// What that comes to.
    packed: Box<[u8]>,
}

/// Longer texts are no models: they are compressed and expanded with every object.
const MODEL_BYTES_MAX: usize = 16 * 1024;
/// How many objects are packed behind one model, before the next object is one: what is packed
/// changes with time.
const MODEL_USES_MAX: u32 = 512;

/// What objects of one kind are packed behind.
#[derive(Default)]
pub struct Models {
    newest: Option<Arc<Model>>,
    uses: u32,
}

impl Models {
    /// What the next object is packed behind.
    pub fn next(&mut self, object: &Object) -> Option<Arc<Model>> {
        if self.uses.is_multiple_of(MODEL_USES_MAX) {
            self.newest = Model::of(object).map(Arc::new);
        }
        self.uses = self.uses.wrapping_add(1);
        self.newest.clone()
    }
}

impl Model {
    fn of(object: &Object) -> Option<Model> {
        TOOLS.with_borrow_mut(|tools| {
            let text = tools.text_of(object)?;
            if text.len() > MODEL_BYTES_MAX {
                return None;
            }
            let text: Box<[u8]> = text.into();
            tools.begin(&text)?;
            Some(Model { packed: tools.packed.as_slice().into(), text })
        })
    }
}

/// What packing needs each time: made anew it would take longer than what it is for.
struct Tools {
    compress: Compress,
    decompress: Decompress,
    text: Vec<u8>,
    packed: Vec<u8>,
}

/// Room for texts that a thread keeps; that of longer ones is given back.
const KEPT_BYTES_MAX: usize = 256 * 1024;

thread_local! {
    static TOOLS: RefCell<Tools> = RefCell::new(Tools {
        compress: Compress::new(Compression::fast(), false),
        decompress: Decompress::new(false),
        text: Vec::new(),
        packed: Vec::new(),
    });
}

impl Tools {
    fn text_of(&mut self, object: &Object) -> Option<&[u8]> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, &object.value).ok()?;
        Some(&self.text)
    }

    /// Begins anew, with what others are to be like.
    fn begin(&mut self, text: &[u8]) -> Option<()> {
        self.compress.reset();
        self.packed.clear();
        self.packed.reserve(room(text.len()));
        self.compress.compress_vec(text, &mut self.packed, FlushCompress::Sync).ok()?;
        Some(())
    }

    /// Compresses the text. `None` if it does not end.
    fn finish(&mut self) -> Option<()> {
        self.packed.reserve(room(self.text.len()));
        let Tools { compress, text, packed, .. } = self;
        let done = compress.compress_vec(text, packed, FlushCompress::Finish).ok()?;
        (done == Status::StreamEnd).then_some(())
    }

    fn give_back(&mut self) {
        self.text.shrink_to(KEPT_BYTES_MAX);
        self.packed.shrink_to(KEPT_BYTES_MAX);
    }
}

/// What cannot be made smaller takes a few bytes more.
fn room(length: usize) -> usize {
    length + length / 8 + 64
}

impl Packed {
    /// `None` if it cannot be; then it is held as it is.
    pub fn of(object: &Object, model: Option<Arc<Model>>) -> Option<Packed> {
        TOOLS.with_borrow_mut(|tools| {
            let length = u32::try_from(tools.text_of(object)?.len()).ok()?;
            tools.begin(model.as_deref().map_or(&[], |model| &model.text))?;
            let before = model.as_deref().map_or(0, |model| model.packed.len());
            if model.as_deref().is_some_and(|model| *model.packed != *tools.packed) {
                return None;
            }
            tools.finish()?;
            let text = tools.packed[before..].into();
            tools.give_back();
            Some(Packed { revision: object.revision, length, text, model })
        })
    }

    pub fn unpack(&self) -> Object {
        const SAME: &str = "what was packed must be what is unpacked";
        let value = TOOLS.with_borrow_mut(|tools| {
            let Tools { decompress, text, .. } = tools;
            let (before, model) = match self.model.as_deref() {
                Some(model) => (model.text.len(), &*model.packed),
                None => (0, [].as_slice()),
            };
            text.clear();
            // One more: else the end is not seen.
            text.reserve(before + self.length as usize + 1);
            decompress.reset(false);
            for packed in [model, &self.text] {
                decompress.decompress_vec(packed, text, FlushDecompress::None).expect(SAME);
            }
            let value = serde_json::from_slice(&text[before..]).expect(SAME);
            tools.give_back();
            value
        });
        Object::shared(Arc::new(value), self.revision)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value, revision: u64) -> Object {
        Object::shared(Arc::new(value), revision)
    }

    #[test]
    fn what_is_packed_is_what_is_unpacked() {
        let value = json!({"metadata": {"namespace": "a", "name": "x", "uid": "u"},
            "spec": {"text": "e".repeat(1_000), "none": null, "number": 1.5}});
        let packed = Packed::of(&object(value.clone(), 7), None).expect("it is text");
        assert!(packed.text.len() < 200, "{}", packed.text.len());
        let found = Held::Packed(packed).whole();
        assert_eq!((found.revision, found.uid.as_str(), &*found.value), (7, "u", &value));
    }

    /// A text that cannot be made smaller, by a generator of the simplest kind.
    fn noise(size: usize, state: &mut u64) -> String {
        let letters = (0..size).map(|_| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b' ' + (*state >> 58) as u8)
        });
        letters.collect()
    }

    #[test]
    fn objects_of_all_sizes_are_packed_one_after_the_other() {
        let (mut state, mut models) = (1, Models::default());
        for size in [0, 1, 100, 10_000, 40_000, 1_000_000, 10] {
            let text = noise(size, &mut state);
            let one = object(json!({"text": text}), 1);
            for model in [None, models.next(&one)] {
                let packed = Packed::of(&one, model).expect("it is text");
                assert_eq!(packed.unpack().value["text"], text.as_str());
            }
        }
    }

    #[test]
    fn what_is_like_a_model_takes_little_room() {
        let text = noise(4_000, &mut 7);
        let like = |name: u32| object(json!({"name": name, "text": text}), 1);
        let mut models = Models::default();
        for name in 0..(MODEL_USES_MAX + 2) {
            let one = like(name);
            let packed = Packed::of(&one, models.next(&one)).expect("it is text");
            assert!(packed.text.len() < 200, "{}", packed.text.len());
            assert_eq!(&*packed.unpack().value, &*one.value);
        }
        let long = object(json!(noise(MODEL_BYTES_MAX + 1, &mut 1)), 1);
        assert!(Models::default().next(&long).is_none());
    }
}
