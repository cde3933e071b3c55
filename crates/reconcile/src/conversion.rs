//! Answers to ConversionReviews: an operator knows how one object becomes one of another version,
//! and whoever is asked, in this process or over HTTPS, puts that into the form of an answer.

use serde_json::{Value, json};

/// Converts an object to an `apiVersion`, or says why that cannot be.
pub type Convert = fn(object: &Value, desired: &str) -> Result<Value, String>;

/// The answer to a ConversionReview. One object that cannot be converted fails all of them.
pub fn answer(review: &Value, convert: Convert) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let one = |object: &Value| match object["apiVersion"] == desired {
        true => Ok(object.clone()),
        false => convert(object, desired),
    };
    let mut response = json!({"uid": request["uid"]});
    match objects.iter().map(one).collect::<Result<Vec<Value>, String>>() {
        Ok(converted) => {
            response["convertedObjects"] = converted.into();
            response["result"] = json!({"status": "Success"});
        }
        Err(why) => response["result"] = json!({"status": "Failure", "message": why}),
    }
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rename(object: &Value, desired: &str) -> Result<Value, String> {
        if object["spec"]["bad"] == true {
            return Err("it is bad".to_owned());
        }
        let mut object = object.clone();
        object["apiVersion"] = json!(desired);
        Ok(object)
    }

    fn review(objects: Value) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": "g/v2", "objects": objects}})
    }

    #[test]
    fn every_object_is_converted_in_its_place() {
        let objects =
            json!([{"apiVersion": "g/v1"}, {"apiVersion": "g/v2", "spec": {"bad": true}}]);
        let answer = answer(&review(objects), rename);
        let expected =
            json!([{"apiVersion": "g/v2"}, {"apiVersion": "g/v2", "spec": {"bad": true}}]);
        assert_eq!(answer["response"]["convertedObjects"], expected);
        assert_eq!(answer["response"]["result"]["status"], "Success");
        assert_eq!(answer["response"]["uid"], "u");
    }

    #[test]
    fn one_that_cannot_be_converted_fails_all() {
        let objects =
            json!([{"apiVersion": "g/v1"}, {"apiVersion": "g/v1", "spec": {"bad": true}}]);
        let answer = answer(&review(objects), rename);
        let expected = json!({"uid": "u", "result": {"status": "Failure", "message": "it is bad"}});
        assert_eq!(answer["response"], expected);
    }
}
