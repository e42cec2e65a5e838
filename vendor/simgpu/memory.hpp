// Device memory of every rank in one reserved range of addresses, so that the owner of a pointer is a shift away and peers'
// memory is reached by plain addresses. Blocks are separated by unmapped pages; every primitive checks what it touches.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "races.hpp"

namespace simgpu {

class Memory {
 public:
  static constexpr int kRankShift = 36;  // 64 GiB of address space a rank
  static constexpr std::size_t kPage = 4096;

  explicit Memory(int num_ranks) : num_ranks_(num_ranks), next_(static_cast<std::size_t>(num_ranks), kPage),
                                   blocks_(static_cast<std::size_t>(num_ranks)), free_(static_cast<std::size_t>(num_ranks)) {
    void* p = mmap(nullptr, reserved(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(p);
  }
  ~Memory() { munmap(base_, reserved()); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Zeroed memory of `rank`, page-aligned; throws std::bad_alloc beyond the rank's address space.
  char* allocate(int rank, std::size_t bytes) {
    const auto r = static_cast<std::size_t>(rank);
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage + (bytes == 0 ? kPage : 0);
    auto& shelf = free_[r][size];
    char* p;
    if (!shelf.empty()) {
      p = shelf.back();
      shelf.pop_back();
    } else {
      if (next_[r] + size + kPage > (std::size_t{1} << kRankShift)) throw std::bad_alloc();
      p = base_ + (r << kRankShift) + next_[r];
      next_[r] += size + kPage;
    }
    if (mprotect(p, size, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    blocks_[r][p] = Block{bytes, size};
    return p;
  }
  void release(int rank, char* p) {
    auto& blocks = blocks_[static_cast<std::size_t>(rank)];
    const auto it = blocks.find(p);
    if (it == blocks.end()) return;
    madvise(p, it->second.reserved, MADV_DONTNEED);
    mprotect(p, it->second.reserved, PROT_NONE);
    free_[static_cast<std::size_t>(rank)][it->second.reserved].push_back(p);
    blocks.erase(it);
    cached_ = {};
  }

  // Rank that owns `p`, or -1 when `p` is not device memory.
  int owner(const void* p) const {
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(p) - base_);
    const auto rank = offset >> kRankShift;
    return rank < static_cast<std::size_t>(num_ranks_) ? static_cast<int>(rank) : -1;
  }
  std::size_t offset(const void* p) const {
    return static_cast<std::size_t>(static_cast<const char*>(p) - base_) & ((std::size_t{1} << kRankShift) - 1);
  }
  // True when [p, p + bytes) lies inside one live block.
  SIMGPU_UNSEEN bool contains(const void* p, std::size_t bytes) const {
    const char* c = static_cast<const char*>(p);
    if (c >= cached_.begin && c + bytes <= cached_.end) return true;
    const int rank = owner(p);
    if (rank < 0) return false;
    const auto& blocks = blocks_[static_cast<std::size_t>(rank)];
    auto it = blocks.upper_bound(const_cast<char*>(c));
    if (it == blocks.begin()) return false;
    --it;
    cached_ = {it->first, it->first + it->second.bytes};
    return c + bytes <= cached_.end;
  }

 private:
  struct Block {
    std::size_t bytes, reserved;
  };
  struct Range {
    const char* begin = nullptr;
    const char* end = nullptr;
  };
  std::size_t reserved() const { return static_cast<std::size_t>(num_ranks_) << kRankShift; }

  int num_ranks_;
  char* base_ = nullptr;
  std::vector<std::size_t> next_;
  std::vector<std::map<char*, Block>> blocks_;
  std::vector<std::map<std::size_t, std::vector<char*>>> free_;
  mutable Range cached_;
};

}  // namespace simgpu
