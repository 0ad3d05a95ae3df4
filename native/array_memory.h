// Where the bytes of NumPy arrays lie that are made for a run: large ones are mapped, and leave the process when freed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace penstock {

// As malloc, calloc, realloc and free, for arrays of at least so many bytes by mmap, as long as it gives any. Some of
// those that were freed may be kept for the next ones, which then cost no page faults. Safe in any thread, and in a
// forked child: who finds what was kept in another's hands does without.
class ArrayMemory {
 public:
  ArrayMemory(std::size_t mapped_from_bytes, std::size_t counted_to_bytes);
  ~ArrayMemory();
  ArrayMemory(const ArrayMemory&) = delete;
  ArrayMemory& operator=(const ArrayMemory&) = delete;

  void* allocate(std::size_t nbytes);
  void* allocate_zeroed(std::size_t nbytes);
  void* resize(void* data, std::size_t nbytes);
  void release(void* data);

  // From now on no more than so many bytes of freed arrays are kept.
  void keep(std::size_t nbytes);
  // Bytes that were mapped so far for arrays of up to `counted_to_bytes`, but for those that were at hand: what a larger
  // limit would have saved.
  std::size_t mapped_bytes() const { return mapped_bytes_.load(std::memory_order_relaxed); }
  // Of the largest of these.
  std::size_t largest_bytes() const { return largest_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Mapping {
    void* base;
    std::size_t nbytes;
  };
  // The oldest first.
  class Kept {
   public:
    bool take(std::size_t nbytes, Mapping* out);
    void add(Mapping mapping, std::size_t limit_bytes);
    void shrink(std::size_t limit_bytes);

   private:
    void remove(std::size_t place);

    std::array<Mapping, 16> mappings_;
    std::size_t count_ = 0;
    std::size_t nbytes_ = 0;
  };

  void* map(std::size_t array_bytes, bool zeroed);
  void unmap(void* data);
  bool try_lock() { return !locked_.test_and_set(std::memory_order_acquire); }
  void unlock() { locked_.clear(std::memory_order_release); }

  const std::size_t mapped_from_bytes_;
  const std::size_t counted_to_bytes_;
  std::atomic<std::size_t> limit_bytes_{0};
  std::atomic<std::size_t> mapped_bytes_{0};
  std::atomic<std::size_t> largest_bytes_{0};
  std::atomic_flag locked_ = ATOMIC_FLAG_INIT;
  Kept kept_;
};

}  // namespace penstock
