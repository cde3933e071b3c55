//! An object that nobody has looked at for a while, in little room: its text, compressed. JSON as
//! maps takes ten times the room of its text, and the text five times that of what is compressed.

use std::cell::RefCell;
use std::sync::Arc;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

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

impl Packed {
    /// `None` if it cannot be; then it is held as it is.
    pub fn of(object: &Object) -> Option<Packed> {
        TOOLS.with_borrow_mut(|Tools { compress, text, packed, .. }| {
            text.clear();
            packed.clear();
            serde_json::to_writer(&mut *text, &object.value).ok()?;
            let length = u32::try_from(text.len()).ok()?;
            compress.reset();
            // What cannot be made smaller takes a few bytes more.
            packed.reserve(text.len() + text.len() / 8 + 64);
            let done = compress.compress_vec(text, packed, FlushCompress::Finish).ok()?;
            if done != flate2::Status::StreamEnd {
                return None;
            }
            let found =
                Packed { revision: object.revision, length, text: packed.as_slice().into() };
            text.shrink_to(KEPT_BYTES_MAX);
            packed.shrink_to(KEPT_BYTES_MAX);
            Some(found)
        })
    }

    pub fn unpack(&self) -> Object {
        const SAME: &str = "what was packed must be what is unpacked";
        let value = TOOLS.with_borrow_mut(|Tools { decompress, text, .. }| {
            text.clear();
            // One more: else the end is not seen.
            text.reserve(self.length as usize + 1);
            decompress.reset(false);
            let done = decompress.decompress_vec(&self.text, text, FlushDecompress::Finish);
            assert_eq!(done.expect(SAME), flate2::Status::StreamEnd, "{SAME}");
            let value = serde_json::from_slice(text).expect(SAME);
            text.shrink_to(KEPT_BYTES_MAX);
            value
        });
        Object::shared(Arc::new(value), self.revision)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_packed_is_what_is_unpacked() {
        let value = json!({"metadata": {"namespace": "a", "name": "x", "uid": "u"},
            "spec": {"text": "e".repeat(1_000), "none": null, "number": 1.5}});
        let object = Object::shared(Arc::new(value.clone()), 7);
        let packed = Packed::of(&object).expect("it is text");
        assert!(packed.text.len() < 200, "{}", packed.text.len());
        let found = Held::Packed(packed).whole();
        assert_eq!((found.revision, found.uid.as_str(), &*found.value), (7, "u", &value));
    }

    #[test]
    fn objects_of_all_sizes_are_packed_one_after_the_other() {
        // Texts that cannot be made smaller, by a generator of the simplest kind.
        let mut state = 1_u64;
        for size in [0, 1, 100, 10_000, 1_000_000, 10] {
            let text: String = (0..size)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    char::from(b' ' + (state >> 58) as u8)
                })
                .collect();
            let object = Object::shared(Arc::new(json!({"text": text})), 1);
            let packed = Packed::of(&object).expect("it is text");
            assert_eq!(packed.unpack().value["text"], text.as_str());
        }
    }
}
