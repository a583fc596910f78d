// embeds DIRECTORY: a program in Go that reads from a RocksDB, for ever.
package main

// #include "rocksdb_c.h"
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

const keys = 10000

type database struct{ db, reads unsafe.Pointer }

//go:noinline
func (d *database) lookUp(number int) int {
	key := []byte(fmt.Sprintf("%016d", number))
	var length C.size_t
	var err *C.char
	text := (*C.char)(unsafe.Pointer(&key[0]))
	C.rocksdb_free(unsafe.Pointer(C.rocksdb_get(d.db, d.reads, text, C.size_t(len(key)), &length, &err)))
	return int(length)
}

//go:noinline
func answer(d *database, begin int) string {
	text := ""
	for number := begin; number < begin+20; number++ {
		text += fmt.Sprint(d.lookUp(number*7919%keys), ",")
	}
	return text
}

func main() {
	options := C.rocksdb_options_create()
	C.rocksdb_options_set_create_if_missing(options, 1)
	var err *C.char
	db := C.rocksdb_open(options, C.CString(os.Args[1]), &err)
	writes := C.rocksdb_writeoptions_create()
	for number := 0; number < keys; number++ {
		key := []byte(fmt.Sprintf("%016d", number))
		text := (*C.char)(unsafe.Pointer(&key[0]))
		C.rocksdb_put(db, writes, text, C.size_t(len(key)), text, C.size_t(len(key)), &err)
	}
	C.rocksdb_flush(db, C.rocksdb_flushoptions_create(), &err)
	d, size := &database{db, C.rocksdb_readoptions_create()}, 0
	for begin := 0; ; begin++ {
		size += len(answer(d, begin))
	}
}
