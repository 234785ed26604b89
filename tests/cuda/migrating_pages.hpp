// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_MIGRATING_PAGES_HPP
#define CAUSEWAY_TESTS_CUDA_MIGRATING_PAGES_HPP

// Memory that a device and the host share, as the driver has it: a page that the host touches comes to it. Here the host
// touches a page that it may not, and the fault is counted. One of them at a time watches.

#include <causeway/tensor/buffer.hpp>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace causeway_test {

class migrating_pages {
 public:
#if defined(__linux__)
  static constexpr bool works = true;

  migrating_pages() = default;
  migrating_pages(const migrating_pages&) = delete;
  migrating_pages& operator=(const migrating_pages&) = delete;
  ~migrating_pages() { watch(false); }

  [[nodiscard]] void* reserve(std::size_t bytes) {
    const std::size_t size = (bytes / page() + 1) * page();
    void* const piece = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) throw std::bad_alloc{};
    pieces_[reinterpret_cast<std::uintptr_t>(piece)] = size;
    return piece;
  }
  void release(void* piece) {
    const auto found = pieces_.find(reinterpret_cast<std::uintptr_t>(piece));
    munmap(piece, found->second);
    pieces_.erase(found);
  }

  /// From now on all pages are the device's, until the host touches them.
  void watch(bool on) {
    if (on == (watching() == this)) return;
    if (on) {
      watching() = this;
      struct sigaction action {};
      action.sa_sigaction = &fault;
      action.sa_flags = SA_SIGINFO;
      sigaction(SIGSEGV, &action, &before());
    } else {
      sigaction(SIGSEGV, &before(), nullptr);
      watching() = nullptr;
    }
    protect(on ? PROT_NONE : PROT_READ | PROT_WRITE);
  }
  /// Pages that the host touched while it was watched.
  [[nodiscard]] std::size_t touched() const { return touched_; }

  /// While it lives, the device may have all pages.
  class work {
   public:
    explicit work(migrating_pages& pages) : pages_{pages} {
      if (watching() == &pages_) pages_.protect(PROT_READ | PROT_WRITE);
    }
    work(const work&) = delete;
    work& operator=(const work&) = delete;
    ~work() {
      if (watching() == &pages_) pages_.protect(PROT_NONE);
    }

   private:
    migrating_pages& pages_;
  };

 private:
  static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  static migrating_pages*& watching() {
    static migrating_pages* one = nullptr;
    return one;
  }
  static struct sigaction& before() {
    static struct sigaction action {};
    return action;
  }

  void protect(int how) {
    for (const auto& [begin, size] : pieces_) mprotect(reinterpret_cast<void*>(begin), size, how);
  }

  static void fault(int, siginfo_t* info, void*) {
    migrating_pages* const self = watching();
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const auto behind = self == nullptr ? decltype(self->pieces_.begin()){} : self->pieces_.upper_bound(at);
    if (self == nullptr || behind == self->pieces_.begin()) std::abort();
    const auto piece = std::prev(behind);
    if (at - piece->first >= piece->second) std::abort();
    mprotect(reinterpret_cast<void*>(at / page() * page()), page(), PROT_READ | PROT_WRITE);
    ++self->touched_;
  }

  std::map<std::uintptr_t, std::size_t> pieces_;  ///< address, bytes
  std::size_t touched_ = 0;
#else
  static constexpr bool works = false;

  [[nodiscard]] void* reserve(std::size_t bytes) { return causeway::allocate_aligned(bytes); }
  void release(void* piece) { std::free(piece); }
  void watch(bool) {}
  [[nodiscard]] std::size_t touched() const { return 0; }
  struct work {
    explicit work(migrating_pages&) {}
  };
#endif
};

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_MIGRATING_PAGES_HPP
