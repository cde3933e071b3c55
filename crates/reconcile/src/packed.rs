//! An object that nobody has looked at for a while, in little room: its text, compressed. JSON as
//! maps takes ten times the room of its text, and the text five times that of what is compressed.

use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

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
    text: Arc<[u8]>,
}

impl Packed {
    /// `None` if it cannot be; then it is held as it is.
    pub fn of(object: &Object) -> Option<Packed> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut encoder, &object.value).ok()?;
        encoder.flush().ok()?;
        let text = encoder.finish().ok()?.into();
        Some(Packed { revision: object.revision, text })
    }

    pub fn unpack(&self) -> Object {
        let mut text = Vec::new();
        let read = DeflateDecoder::new(&*self.text).read_to_end(&mut text);
        read.expect("what was packed must be what is unpacked");
        let value = serde_json::from_slice(&text);
        let value = value.expect("what was packed must be what is unpacked");
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
}
