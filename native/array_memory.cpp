#include "array_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace penstock {
namespace {

// Before the bytes of every array. NumPy tells the size of what it frees, but that of the array as it is then, which need
// not be the one that was asked for.
struct Header {
  std::size_t mapped_bytes;  // of the whole mapping; 0: from the heap
  std::size_t array_bytes;
};
static_assert(sizeof(Header) == 16, "arrays from the heap must stay aligned as malloc aligns them");

// Mapped arrays begin so far behind their page's start: as vector code, TensorFlow and JAX want them.
constexpr std::size_t kAlignment = 64;
// How often who must have what is kept looks whether it is free: a thread that has it is done in some microseconds.
constexpr int kMostLooks = 10000;

Header* header_of(void* data) { return static_cast<Header*>(data) - 1; }

void* array_in(void* base, std::size_t mapped_bytes, std::size_t array_bytes) {
  void* data = static_cast<std::uint8_t*>(base) + kAlignment;
  *header_of(data) = {mapped_bytes, array_bytes};
  return data;
}

void* mapping_of(void* data) { return static_cast<std::uint8_t*>(data) - kAlignment; }

#if defined(__linux__)

constexpr bool kCanMap = true;
// NumPy asks for huge pages from here on.
constexpr std::size_t kHuge = std::size_t{4} << 20;
// Linux 5.14; older headers have no name for it, and older kernels refuse it, which does no harm.
constexpr int kPopulateWrite = 23;
constexpr std::size_t kPage = 4096;

// 0 where no mapping can be so large.
std::size_t mapping_bytes(std::size_t array_bytes) {
  if (array_bytes > SIZE_MAX - kAlignment - kPage) return 0;
  return (array_bytes + kAlignment + kPage - 1) / kPage * kPage;
}

void* new_mapping(std::size_t nbytes, bool is_filled_soon) {
  void* base = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  if (nbytes >= kHuge) {
    madvise(base, nbytes, MADV_HUGEPAGE);
  } else if (is_filled_soon) {
    madvise(base, nbytes, kPopulateWrite);  // all pages at once take half the time of a fault for each
  }
  return base;
}

void* moved_mapping(void* base, std::size_t before_bytes, std::size_t nbytes) {
  base = mremap(base, before_bytes, nbytes, MREMAP_MAYMOVE);
  return base == MAP_FAILED ? nullptr : base;
}

void drop_mapping(void* base, std::size_t nbytes) { munmap(base, nbytes); }

#else  // all arrays are from the heap

constexpr bool kCanMap = false;
std::size_t mapping_bytes(std::size_t) { return 0; }
void* new_mapping(std::size_t, bool) { return nullptr; }
void* moved_mapping(void*, std::size_t, std::size_t) { return nullptr; }
void drop_mapping(void*, std::size_t) {}

#endif

void* in_heap(void* block, std::size_t array_bytes) {
  if (block == nullptr) return nullptr;
  auto* header = static_cast<Header*>(block);
  *header = {0, array_bytes};
  return header + 1;
}

// 0 where no block can be so large.
std::size_t heap_bytes(std::size_t array_bytes) {
  return array_bytes > SIZE_MAX - sizeof(Header) ? 0 : array_bytes + sizeof(Header);
}

}  // namespace

ArrayMemory::ArrayMemory(std::size_t mapped_from_bytes, std::size_t counted_to_bytes)
    : mapped_from_bytes_(kCanMap ? mapped_from_bytes : SIZE_MAX), counted_to_bytes_(counted_to_bytes) {}

ArrayMemory::~ArrayMemory() { kept_.shrink(0); }  // the last array is gone: nobody else looks

// A process may have 65,530 mappings, so there may be none left while there is memory: then arrays are from the heap.
void* ArrayMemory::allocate(std::size_t nbytes) {
  if (nbytes >= mapped_from_bytes_) {
    if (void* data = map(nbytes, false)) return data;
  }
  const std::size_t whole_bytes = heap_bytes(nbytes);
  return whole_bytes == 0 ? nullptr : in_heap(std::malloc(whole_bytes), nbytes);
}

void* ArrayMemory::allocate_zeroed(std::size_t nbytes) {
  if (nbytes >= mapped_from_bytes_) {
    if (void* data = map(nbytes, true)) return data;
  }
  const std::size_t whole_bytes = heap_bytes(nbytes);
  return whole_bytes == 0 ? nullptr : in_heap(std::calloc(1, whole_bytes), nbytes);
}

void* ArrayMemory::resize(void* data, std::size_t nbytes) {
  if (data == nullptr) return allocate(nbytes);
  const Header was = *header_of(data);
  const bool was_mapped = was.mapped_bytes != 0, is_mapped = nbytes >= mapped_from_bytes_;
  if (was_mapped && is_mapped) {
    const std::size_t whole_bytes = mapping_bytes(nbytes);
    void* base = whole_bytes == 0 ? nullptr : moved_mapping(mapping_of(data), was.mapped_bytes, whole_bytes);
    return base == nullptr ? nullptr : array_in(base, whole_bytes, nbytes);
  }
  if (!was_mapped && !is_mapped) {
    const std::size_t whole_bytes = heap_bytes(nbytes);
    return whole_bytes == 0 ? nullptr : in_heap(std::realloc(header_of(data), whole_bytes), nbytes);
  }
  void* moved = allocate(nbytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, data, std::min(nbytes, was.array_bytes));
  release(data);
  return moved;
}

void ArrayMemory::release(void* data) {
  if (data == nullptr) return;
  if (header_of(data)->mapped_bytes == 0) return std::free(header_of(data));
  unmap(data);
}

void* ArrayMemory::map(std::size_t array_bytes, bool zeroed) {
  const std::size_t whole_bytes = mapping_bytes(array_bytes);
  if (whole_bytes == 0) return nullptr;
  if (limit_bytes_.load(std::memory_order_relaxed) != 0 && try_lock()) {
    Mapping found;
    const bool is_there = kept_.take(whole_bytes, &found);
    unlock();
    if (is_there) {
      // It may live for long, and nobody counts what is behind the array.
      const std::size_t beyond_bytes = found.nbytes - whole_bytes;
      if (beyond_bytes != 0) drop_mapping(static_cast<std::uint8_t*>(found.base) + whole_bytes, beyond_bytes);
      void* data = array_in(found.base, whole_bytes, array_bytes);
      return zeroed ? std::memset(data, 0, array_bytes) : data;
    }
  }
  void* base = new_mapping(whole_bytes, !zeroed);
  if (base == nullptr) return nullptr;
  if (array_bytes <= counted_to_bytes_) {
    mapped_bytes_.fetch_add(whole_bytes, std::memory_order_relaxed);
    std::size_t largest = largest_bytes();
    while (largest < whole_bytes && !largest_bytes_.compare_exchange_weak(largest, whole_bytes)) {
    }
  }
  return array_in(base, whole_bytes, array_bytes);
}

void ArrayMemory::unmap(void* data) {
  const Mapping mapping{mapping_of(data), header_of(data)->mapped_bytes};
  const std::size_t limit_bytes = limit_bytes_.load(std::memory_order_relaxed);
  if (mapping.nbytes > limit_bytes || !try_lock()) return drop_mapping(mapping.base, mapping.nbytes);
  // Once more: it may have become smaller before the lock was had, and who made it so has looked through all by now.
  kept_.add(mapping, limit_bytes_.load(std::memory_order_relaxed));
  unlock();
}

void ArrayMemory::keep(std::size_t nbytes) {
  limit_bytes_.store(nbytes, std::memory_order_relaxed);
  for (int look = 0; look < kMostLooks; ++look) {
    if (try_lock()) {
      kept_.shrink(nbytes);
      return unlock();
    }
    std::this_thread::yield();
  }
}

bool ArrayMemory::Kept::take(std::size_t nbytes, Mapping* out) {
  std::size_t best = count_;
  for (std::size_t i = 0; i < count_; ++i) {
    // A much larger one is better left to an array of its size.
    if (mappings_[i].nbytes < nbytes || mappings_[i].nbytes - nbytes > nbytes / 8) continue;
    if (best == count_ || mappings_[i].nbytes <= mappings_[best].nbytes) best = i;
  }
  if (best == count_) return false;
  *out = mappings_[best];
  remove(best);
  return true;
}

void ArrayMemory::Kept::add(Mapping mapping, std::size_t limit_bytes) {
  if (mapping.nbytes > limit_bytes) return drop_mapping(mapping.base, mapping.nbytes);
  shrink(limit_bytes - mapping.nbytes);
  if (count_ == mappings_.size()) {
    drop_mapping(mappings_[0].base, mappings_[0].nbytes);
    remove(0);
  }
  mappings_[count_++] = mapping;
  nbytes_ += mapping.nbytes;
}

void ArrayMemory::Kept::shrink(std::size_t limit_bytes) {
  while (nbytes_ > limit_bytes) {
    drop_mapping(mappings_[0].base, mappings_[0].nbytes);
    remove(0);
  }
}

void ArrayMemory::Kept::remove(std::size_t place) {
  nbytes_ -= mappings_[place].nbytes;
  std::copy(mappings_.begin() + place + 1, mappings_.begin() + count_, mappings_.begin() + place);
  --count_;
}

}  // namespace penstock
