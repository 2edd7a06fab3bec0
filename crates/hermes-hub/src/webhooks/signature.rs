//! Signatures as Standard Webhooks has them.

use base64::{Engine, engine::general_purpose::STANDARD};
use hermes_config::{Secret, random::random_bytes};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// As the specification recommends.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The key of a secret `whsec_…`; `None` if it is not one of 24 to 64 bytes.
pub fn parse_secret(secret: &str) -> Option<Vec<u8>> {
    let key = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
    KEY_BYTES.contains(&key.len()).then_some(key)
}

pub fn new_secret() -> Result<Secret<String>, hermes_config::random::RandomError> {
    let key = random_bytes::<32>()?;
    Ok(Secret::new(format!("{PREFIX}{}", STANDARD.encode(key))))
}

/// The header `webhook-signature`. The timestamp is in seconds since 1970.
pub fn sign(key: &[u8], id: &str, timestamp: i64, body: &str) -> String {
    // A key of any length is taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of the reference libraries.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        for (secret, id, timestamp, body, signature) in [
            (
                "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                1_649_367_553,
                r#"{"email":"test@example.com","username":"test_user"}"#,
                "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
            ),
            (
                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                r#"{"test": 2432232314}"#,
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
        ] {
            let key = parse_secret(secret).unwrap();
            assert_eq!(sign(&key, id, timestamp, body), signature);
        }
    }

    #[test]
    fn a_secret_has_24_to_64_bytes_and_its_prefix() {
        assert!(parse_secret(new_secret().unwrap().expose()).is_some());
        for wrong in [
            "",
            "whsec_",
            "whsec_c2hvcnQ=",
            "C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "whsec_not base64 at all, but long enough",
        ] {
            assert!(parse_secret(wrong).is_none(), "{wrong}");
        }
        assert!(parse_secret(&format!("whsec_{}", STANDARD.encode([1; 64]))).is_some());
        assert!(parse_secret(&format!("whsec_{}", STANDARD.encode([1; 65]))).is_none());
    }
}
