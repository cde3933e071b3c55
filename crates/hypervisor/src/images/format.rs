//! What an image is, told from how it begins. Only what is wanted is read; the rest is not trusted.

use super::fault::Fault;

/// How much of an image is looked at.
pub const HEAD_BYTES: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Raw,
    /// With the size that the guest sees.
    Qcow2 {
        size: u64,
    },
    Gzip,
    Xz,
}

/// Tells what begins so.
pub fn detect(head: &[u8]) -> Result<Format, Fault> {
    let begins = |magic: &[u8]| head.starts_with(magic);
    if begins(&[0x1f, 0x8b]) {
        return Ok(Format::Gzip);
    }
    if begins(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        return Ok(Format::Xz);
    }
    if begins(b"QFI\xfb") {
        return qcow2(head);
    }
    let others: [(&'static str, bool); 8] = [
        ("vmdk", begins(b"KDMV") || begins(b"COWD") || begins(b"# Disk DescriptorFile")),
        ("vhdx", begins(b"vhdxfile")),
        ("vpc", begins(b"conectix")),
        ("vdi", head.get(0x40..0x44) == Some(&[0x7f, 0x10, 0xda, 0xbe])),
        ("qed", begins(b"QED\0")),
        ("zstd", begins(&[0x28, 0xb5, 0x2f, 0xfd])),
        ("bzip2", begins(b"BZh")),
        ("luks", begins(b"LUKS\xba\xbe")),
    ];
    match others.iter().find(|(_, is)| *is) {
        Some((name, _)) => Err(Fault::Format(name)),
        None => Ok(Format::Raw),
    }
}

/// Reads the header: whatever names another file is refused.
fn qcow2(head: &[u8]) -> Result<Format, Fault> {
    const EXTERNAL_DATA: u64 = 1 << 2;
    let broken = || Fault::Broken("the header of qcow2 is cut off".to_owned());
    let number = |at: usize, length: usize| -> Result<u64, Fault> {
        let bytes = head.get(at..at + length).ok_or_else(broken)?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    let version = number(4, 4)?;
    if ![2, 3].contains(&version) {
        return Err(Fault::Broken(format!("qcow2 of version {version} is not known")));
    }
    if number(8, 8)? != 0 {
        return Err(Fault::Backed("a backing file"));
    }
    if number(32, 4)? != 0 {
        return Err(Fault::Format("encrypted qcow2"));
    }
    if version == 3 && number(72, 8)? & EXTERNAL_DATA != 0 {
        return Err(Fault::Backed("a data file"));
    }
    Ok(Format::Qcow2 { size: number(24, 8)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: u8, backing: u64, size: u64, incompatible: u64) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES];
        head[..4].copy_from_slice(b"QFI\xfb");
        head[7] = version;
        head[8..16].copy_from_slice(&backing.to_be_bytes());
        head[24..32].copy_from_slice(&size.to_be_bytes());
        head[72..80].copy_from_slice(&incompatible.to_be_bytes());
        head
    }

    #[test]
    fn what_would_read_other_files_is_refused() {
        assert_eq!(detect(&header(3, 0, 5, 0)).unwrap(), Format::Qcow2 { size: 5 });
        let said = |head: Vec<u8>| detect(&head).unwrap_err().to_string();
        let backed = "the image needs another file (a backing file), which is not followed";
        assert_eq!(said(header(2, 100, 5, 0)), backed);
        let data = "the image needs another file (a data file), which is not followed";
        assert_eq!(said(header(3, 0, 5, 4)), data);
        assert_eq!(
            said(header(9, 0, 5, 0)),
            "the image is broken: qcow2 of version 9 is not known"
        );
        assert_eq!(
            said(b"QFI\xfb\0\0\0\x03".to_vec()),
            "the image is broken: the header of qcow2 is cut off"
        );
    }

    #[test]
    fn formats_are_told_apart() {
        assert_eq!(detect(b"\x1f\x8bxx").unwrap(), Format::Gzip);
        assert_eq!(detect(b"\xfd7zXZ\0").unwrap(), Format::Xz);
        assert_eq!(detect(&[0; 600]).unwrap(), Format::Raw);
        assert_eq!(detect(b"").unwrap(), Format::Raw);
        assert!(matches!(detect(b"KDMV...."), Err(Fault::Format("vmdk"))));
    }
}
