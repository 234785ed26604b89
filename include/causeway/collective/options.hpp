// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_OPTIONS_HPP
#define CAUSEWAY_COLLECTIVE_OPTIONS_HPP

// What all collectives share: how long they may take, how they cut data, where they keep working memory.

#include <causeway/core/clock.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/tensor/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// How a sum travels. `n` peers, `size` bytes of f32 each.
enum class algorithm : std::uint8_t {
  automatic,  ///< the transport's own sum where it has one (net::SumsItself); else one_shot up to
              ///< collective_options::one_shot_bytes, and few peers; butterfly beyond
  one_shot,   ///< everybody sends everything to everybody: (n-1) size bytes a peer, 1 latency; sums in the order 0..n-1
  butterfly,  ///< each peer owns 1/n, sums it, sends it back: 2 (n-1)/n size bytes, 2 latencies; in the order 0..n-1
  ring,       ///< 2 (n-1)/n size bytes, 2 (n-1) latencies, talks to two neighbours only; part p in the order p, p+1, .. p-1
};

/// Memory that collectives reuse. Give the same one to every call of a thread and they allocate nothing after the largest
/// call was seen. Not for two threads at once.
class collective_workspace {
 public:
  /// At least `bytes` bytes, 64-byte aligned; what was there before is lost when it grows.
  CAUSEWAY_DECL [[nodiscard]] std::byte* reserve(std::size_t bytes);

  [[nodiscard]] std::vector<net::scoped_operation>& operations() noexcept { return operations_; }
  [[nodiscard]] std::vector<std::size_t>& sizes() noexcept { return sizes_; }
  [[nodiscard]] std::vector<const float*>& parts() noexcept { return parts_; }
  [[nodiscard]] thread_pool& alone() noexcept { return alone_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.size(); }

 private:
  aligned_buffer<std::byte> memory_;
  std::vector<net::scoped_operation> operations_;
  std::vector<std::size_t> sizes_;
  std::vector<const float*> parts_;
  thread_pool alone_{1};
};

struct collective_options {
  time_point deadline = no_deadline;                    ///< on the transport's clock, for the whole call
  algorithm how = algorithm::automatic;                 ///< must be the same on all peers, as must the next three
  std::size_t chunk_bytes = std::size_t{256} << 10U;    ///< f32 bytes that are sent, summed and passed on as one piece
  std::size_t one_shot_bytes = std::size_t{64} << 10U;  ///< of a peer; and at most 16 times as many of all together
  std::uint32_t window = 4;                             ///< chunks under way at a time in each of the two phases
  thread_pool* pool = nullptr;                          ///< for sums and codecs; none: the caller's thread
  collective_workspace* workspace = nullptr;            ///< none: allocated for this call
  /// Look at finished sums of f32 that arrive, too: for peers that do not rely on each other's own check. Costs 6 % of an
  /// all-reduce over loopback.
  bool checks_results = false;
};

/// The same, for links of `streams` TCP connections each. Several streams are what a lossy line without BBR gets; each then
/// carries one chunk at a time and slowly, so there must be chunks for all of them: 16 MiB over 100 Mbit/s with 50 ms and
/// 1 % loss took 4.7 s instead of 9.5 s. All peers must give the same number.
constexpr collective_options tuned_for_streams(collective_options o, std::size_t streams) noexcept {
  if (streams <= 1) return o;
  o.chunk_bytes = std::size_t{128} << 10U;
  o.window = 16;
  return o;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/options.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_OPTIONS_HPP
