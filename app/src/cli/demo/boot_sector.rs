//! The smallest guest: one sector of code that a BIOS loads and runs. It writes a line to the first
//! serial port about once a second, for ever, and sleeps in between.
//!
//! No image has to be fetched for it, so that a machine can be shown to boot on any machine that
//! has QEMU. What is written again and again is read also by whoever connects late.

/// What the guest says.
pub const GREETING: &str = "hello from a virtual machine";

const SECTOR_BYTES: usize = 512;
/// Larger than a sector, because tools refuse disks that are none of their sizes.
const DISK_BYTES: usize = 1 << 20;
/// What tells a BIOS that a sector can be run.
const SIGNATURE: [u8; 2] = [0x55, 0xaa];

/// The code, as the processor has it when it starts: 16 bits, loaded at 0x7c00.
const CODE: [u8; 46] = [
    0xfa, // cli
    0x31, 0xc0, // xor ax, ax
    0x8e, 0xd8, // mov ds, ax
    0x8e, 0xd0, // mov ss, ax
    0xbc, 0x00, 0x7c, // mov sp, 0x7c00
    0xfb, // sti
    0xfc, // cld
    // again:
    0xbe, 0x2e, 0x7c, // mov si, text: right behind this code
    // next:
    0xac, // lodsb
    0x84, 0xc0, // test al, al
    0x74, 0x12, // jz pause
    0x88, 0xc4, // mov ah, al
    0xba, 0xfd, 0x03, // mov dx, 0x3fd: how the port is
    // busy:
    0xec, // in al, dx
    0xa8, 0x20, // test al, 0x20: there is room for one byte
    0x74, 0xfb, // jz busy
    0x88, 0xe0, // mov al, ah
    0xba, 0xf8, 0x03, // mov dx, 0x3f8: what the port sends
    0xee, // out dx, al
    0xeb, 0xe9, // jmp next
    // pause:
    0xb9, 0x12, 0x00, // mov cx, 18: so many ticks of the clock are a second
    // tick:
    0xf4, // hlt
    0xe2, 0xfd, // loop tick
    0xeb, 0xde, // jmp again
];

/// A disk that boots.
pub fn disk() -> Vec<u8> {
    let mut disk = vec![0; DISK_BYTES];
    let text = format!("{GREETING}\r\n\0");
    disk[..CODE.len()].copy_from_slice(&CODE);
    disk[CODE.len()..CODE.len() + text.len()].copy_from_slice(text.as_bytes());
    disk[SECTOR_BYTES - SIGNATURE.len()..SECTOR_BYTES].copy_from_slice(&SIGNATURE);
    disk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sector_can_be_booted_and_its_code_finds_the_text() {
        let disk = disk();
        assert_eq!(disk[510..512], SIGNATURE);
        let text = usize::from(u16::from_le_bytes([CODE[13], CODE[14]])) - 0x7c00;
        let end = disk[text..].iter().position(|byte| *byte == 0).expect("the text ends");
        assert_eq!(&disk[text..text + end], format!("{GREETING}\r\n").as_bytes());
        assert!(text + end < 510);
    }
}
