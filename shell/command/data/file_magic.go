package data

import (
	"encoding/binary"
	"fmt"
	"time"
)

// signature is the signature of a file format.
type signature struct {
	at          int
	magic, text string
	mime        string
	more        func([]byte) string
}

// signatures are the known signatures; the first that matches counts.
var signatures = []signature{
	{0, "\x89PNG\r\n\x1a\n", "PNG image data", "image/png", describePNG},
	{0, "GIF8", "GIF image data", "image/gif", describeGIF},
	{0, "\xff\xd8\xff", "JPEG image data", "image/jpeg", describeJPEG},
	{0, "BM", "PC bitmap", "image/bmp", describeBMP},
	{0, "\x00\x00\x01\x00", "MS Windows icon resource", "image/vnd.microsoft.icon", nil},
	{0, "II*\x00", "TIFF image data, little-endian", "image/tiff", nil},
	{0, "MM\x00*", "TIFF image data, big-endian", "image/tiff", nil},
	{0, "\x1f\x8b", "gzip compressed data", "application/gzip", describeGzip},
	{0, "BZh", "bzip2 compressed data", "application/x-bzip2", func(b []byte) string { return ", block size = " + string(b[3:min(4, len(b))]) + "00k" }},
	{0, "\xfd7zXZ\x00", "XZ compressed data", "application/x-xz", describeXZ},
	{0, "\x28\xb5\x2f\xfd", "Zstandard compressed data (v0.8+), Dictionary ID: None", "application/zstd", nil},
	{0, "7z\xbc\xaf\x27\x1c", "7-zip archive data", "application/x-7z-compressed", func(b []byte) string {
		if len(b) < 8 {
			return ""
		}
		return fmt.Sprintf(", version %d.%d", b[6], b[7])
	}},
	{0, "PK\x03\x04", "Zip archive data", "application/zip", describeZip},
	{0, "PK\x05\x06", "Zip archive data (empty)", "application/zip", nil},
	{0, "Rar!\x1a\x07", "RAR archive data", "application/x-rar", nil},
	{257, "ustar  \x00", "POSIX tar archive (GNU)", "application/x-tar", nil},
	{257, "ustar\x00", "POSIX tar archive", "application/x-tar", nil},
	{0, "070701", "ASCII cpio archive (SVR4 with no CRC)", "application/x-cpio", nil},
	{0, "070707", "ASCII cpio archive (pre-SVR4 or odc)", "application/x-cpio", nil},
	{0, "!<arch>\ndebian", "Debian binary package (format 2.0)", "application/vnd.debian.binary-package", nil},
	{0, "!<arch>\n", "current ar archive", "application/x-archive", nil},
	{0, "\x7fELF", "ELF", "application/x-object", describeELF},
	{0, "MZ", "MS-DOS executable", "application/x-dosexec", nil},
	{0, "\xca\xfe\xba\xbe", "compiled Java class data", "application/x-java-applet", describeJava},
	{0, "\x00asm", "WebAssembly (wasm) binary module", "application/wasm", func(b []byte) string {
		if len(b) < 8 {
			return ""
		}
		return fmt.Sprintf(" version %#x (MVP)", binary.LittleEndian.Uint32(b[4:]))
	}},
	{0, "%PDF-", "PDF document", "application/pdf", func(b []byte) string {
		if len(b) < 8 {
			return ""
		}
		return ", version " + string(b[5:8])
	}},
	{0, "%!PS-Adobe-", "PostScript document text", "application/postscript", func(b []byte) string { return " conforming DSC level " + string(b[11:min(14, len(b))]) }},
	{0, "SQLite format 3\x00", "SQLite 3.x database", "application/vnd.sqlite3", nil},
	{0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "OLE 2 Compound Document", "application/x-ole-storage", nil},
	{0, "OggS", "Ogg data", "application/ogg", nil},
	{0, "ID3", "Audio file with ID3 version 2", "audio/mpeg", func(b []byte) string {
		if len(b) < 5 {
			return ""
		}
		return fmt.Sprintf(".%d.%d", b[3], b[4])
	}},
	{0, "fLaC", "FLAC audio bitstream data", "audio/flac", nil},
	{4, "ftyp", "ISO Media", "video/mp4", describeMP4},
	{0, "RIFF", "RIFF (little-endian) data", "application/octet-stream", describeRIFF},
	{0, "wOFF", "Web Open Font Format", "font/woff", nil},
	{0, "wOF2", "Web Open Font Format (Version 2)", "font/woff2", nil},
	{0, "\xde\x12\x04\x95", "GNU message catalog (little endian)", "application/x-gettext-translation", nil},
}

var colorTypes = map[byte]string{0: "grayscale", 2: "/color RGB", 3: " colormap", 4: "gray+alpha", 6: "/color RGBA"}

func describePNG(b []byte) string {
	if len(b) < 29 {
		return ""
	}
	be := binary.BigEndian
	depth := fmt.Sprintf("%d-bit", b[24])
	switch kind := colorTypes[b[25]]; b[25] {
	case 0:
		depth += " grayscale"
	case 4:
		depth = fmt.Sprintf("%d-bit %s", b[24], kind)
	default:
		depth += kind
	}
	lace := "non-interlaced"
	if b[28] == 1 {
		lace = "interlaced"
	}
	return fmt.Sprintf(", %d x %d, %s, %s", be.Uint32(b[16:]), be.Uint32(b[20:]), depth, lace)
}

func describeGIF(b []byte) string {
	if len(b) < 10 {
		return ""
	}
	le := binary.LittleEndian
	return fmt.Sprintf(", version %s, %d x %d", b[3:6], le.Uint16(b[6:]), le.Uint16(b[8:]))
}

func describeJPEG(b []byte) string {
	if len(b) < 18 || string(b[6:10]) != "JFIF" {
		return ""
	}
	be := binary.BigEndian
	unit := "aspect ratio"
	switch b[13] {
	case 1:
		unit = "resolution (DPI)"
	case 2:
		unit = "resolution (DPCM)"
	}
	return fmt.Sprintf(", JFIF standard %d.%02d, %s, density %dx%d, segment length %d", b[11], b[12], unit, be.Uint16(b[14:]), be.Uint16(b[16:]), be.Uint16(b[4:]))
}

func describeBMP(b []byte) string {
	if len(b) < 30 {
		return ""
	}
	le := binary.LittleEndian
	return fmt.Sprintf(", Windows 3.x format, %d x %d x %d, cbSize %d, bits offset %d", le.Uint32(b[18:]), le.Uint32(b[22:]), le.Uint16(b[28:]), le.Uint32(b[2:]), le.Uint32(b[10:]))
}

func describeGzip(b []byte) string {
	if len(b) < 18 {
		return ""
	}
	s := ""
	if b[3]&8 != 0 {
		name := b[10:]
		for i, c := range name {
			if c == 0 {
				s += fmt.Sprintf(", was %q", name[:i])
				break
			}
		}
	}
	if at := binary.LittleEndian.Uint32(b[4:]); at != 0 {
		s += ", last modified: " + time.Unix(int64(at), 0).UTC().Format("Mon Jan _2 15:04:05 2006")
	}
	switch b[8] {
	case 2:
		s += ", max compression"
	case 4:
		s += ", max speed"
	}
	if b[9] == 3 {
		s += ", from Unix"
	}
	return s + fmt.Sprintf(", original size modulo 2^32 %d", binary.LittleEndian.Uint32(b[len(b)-4:]))
}

func describeXZ(b []byte) string {
	if len(b) < 8 {
		return ""
	}
	return map[byte]string{0: ", checksum NONE", 1: ", checksum CRC32", 4: ", checksum CRC64", 10: ", checksum SHA-256"}[b[7]&15]
}

func describeZip(b []byte) string {
	if len(b) < 10 {
		return ""
	}
	method := map[byte]string{0: "store", 8: "deflate"}[b[8]]
	return fmt.Sprintf(", at least v%d.%d to extract, compression method=%s", b[4]/10, b[4]%10, method)
}

func describeELF(b []byte) string {
	if len(b) < 20 {
		return ""
	}
	s := map[byte]string{1: " 32-bit", 2: " 64-bit"}[b[4]] + map[byte]string{1: " LSB", 2: " MSB"}[b[5]]
	var order binary.ByteOrder = binary.LittleEndian
	if b[5] == 2 {
		order = binary.BigEndian
	}
	s += " " + map[uint16]string{1: "relocatable", 2: "executable", 3: "shared object", 4: "core file"}[order.Uint16(b[16:])]
	return s + ", " + map[uint16]string{3: "Intel 80386", 62: "x86-64", 40: "ARM", 183: "ARM aarch64", 243: "UCB RISC-V"}[order.Uint16(b[18:])] + ", version 1 (SYSV)"
}

func describeJava(b []byte) string {
	if len(b) < 8 {
		return ""
	}
	major := binary.BigEndian.Uint16(b[6:])
	s := fmt.Sprintf(", version %d.%d", major, binary.BigEndian.Uint16(b[4:]))
	if major >= 49 {
		s += fmt.Sprintf(" (Java %s%d)", map[bool]string{true: "1.", false: ""}[major < 53], major-44)
	}
	return s
}

func describeMP4(b []byte) string {
	if len(b) < 12 {
		return ""
	}
	switch brand := string(b[8:12]); brand {
	case "mp42":
		return ", MP4 v2 [ISO 14496-14]"
	case "isom":
		return ", MP4 Base Media v1 [ISO 14496-12:2003]"
	case "qt  ":
		return ", Apple QuickTime movie"
	}
	return ""
}

func describeRIFF(b []byte) string {
	if len(b) < 12 {
		return ""
	}
	return map[string]string{"WAVE": ", WAVE audio", "AVI ": ", AVI", "WEBP": ", Web/P image"}[string(b[8:12])]
}
