//! The stream that clients ask for with `compress=zlib-stream`, in blocks that are stored as they are: valid for every
//! decompressor, and no library is needed.

/// One stream, which lasts as long as its connection.
#[derive(Default)]
pub(super) struct StoredZlib {
    has_begun: bool,
}

impl StoredZlib {
    /// A message, flushed.
    pub(super) fn encode(&mut self, message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(message.len() + 16);
        if !self.has_begun {
            self.has_begun = true;
            bytes.extend([0x78, 0x01]);
        }
        // The empty block at the end is the sign of a flush.
        for block in message.chunks(0xffff).chain([[].as_slice()]) {
            let length = u16::try_from(block.len()).unwrap_or_default();
            bytes.push(0);
            bytes.extend(length.to_le_bytes());
            bytes.extend((!length).to_le_bytes());
            bytes.extend(block);
        }
        bytes
    }
}
