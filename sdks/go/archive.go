package skillbox

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// readSkill returns the upload of a skill: the content of a zip, or a directory packed into one.
func readSkill(path string) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("skillbox: there is no skill: %w", err)
	}
	if about.IsDir() {
		return pack(path)
	}
	return os.ReadFile(path)
}

// pack packs a directory into a zip. Links are rejected, so files outside the directory are never included. Files are
// opened through the open directory, so that another process cannot replace one with a link to a file outside.
func pack(directory string) ([]byte, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || isJunk(entry.Name()) {
			return err
		}
		if !entry.Type().IsRegular() {
			return notAFile(name)
		}
		return packFile(archive, root, name)
	})
	// Close writes the central directory of the zip.
	if err := errors.Join(err, archive.Close()); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func notAFile(name string) error {
	return fmt.Errorf("skillbox: %s is a link or a special file; a skill holds files and directories only", name)
}

func packFile(archive *zip.Writer, root *os.Root, name string) error {
	file, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return err
	}
	if !about.Mode().IsRegular() {
		return notAFile(name)
	}
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(0o644)
	if about.Mode()&0o111 != 0 {
		header.SetMode(0o755)
	}
	entry, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(entry, file)
	return err
}

func isJunk(name string) bool {
	return name == ".DS_Store" || strings.EqualFold(name, "Thumbs.db")
}

// unpack unpacks a gzip tar. The first of two passes only checks it, so that nothing is written if it is truncated or unsafe.
func unpack(archive io.ReadSeeker, directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(directory)
	if err != nil {
		return err
	}
	if err := eachFile(archive, func(string, io.Reader) error { return nil }); err != nil {
		return err
	}
	return eachFile(archive, func(name string, content io.Reader) error {
		target := filepath.Join(root, filepath.FromSlash(name))
		if err := checkParents(root, target); err != nil {
			return err
		}
		return writeAtomically(target, func(file *os.File) error {
			_, err := io.Copy(file, content)
			return err
		})
	})
}

func eachFile(archive io.ReadSeeker, use func(name string, content io.Reader) error) error {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	plain, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrArchive, err)
	}
	entries := tar.NewReader(plain)
	for {
		entry, err := entries.Next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, tar.ErrInsecurePath) {
			return fmt.Errorf("%w: %q", ErrUnsafePath, entry.Name)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrArchive, err)
		}
		if entry.Typeflag == tar.TypeDir {
			continue
		}
		if entry.Typeflag != tar.TypeReg || !isSafe(entry.Name) {
			return fmt.Errorf("%w: %q", ErrUnsafePath, entry.Name)
		}
		if err := use(entry.Name, entries); err != nil {
			return err
		}
	}
	// Read to the end, so that the checksum is verified.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return nil
}

func isSafe(name string) bool {
	forbidden := func(r rune) bool {
		return r < ' ' || r == 0x7f || (runtime.GOOS == "windows" && (r == '\\' || r == ':'))
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, forbidden) {
			return false
		}
	}
	return true
}

// checkParents rejects an existing link that would redirect the file to another place.
func checkParents(root, target string) error {
	for parent := filepath.Dir(target); parent != root; parent = filepath.Dir(parent) {
		about, err := os.Lstat(parent)
		if err == nil && !about.IsDir() {
			return fmt.Errorf("%w: %s would be written outside of %s", ErrUnsafePath, target, root)
		}
	}
	return nil
}

// writeAtomically writes a file that appears under its name only once it is complete.
func writeAtomically(path string, write func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(path), "."+newID()+".part")
	file, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		os.Remove(part)
		return err
	}
	return os.Rename(part, path)
}
