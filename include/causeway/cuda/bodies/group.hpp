// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_GROUP_HPP
#define CAUSEWAY_CUDA_BODIES_GROUP_HPP

// Threads that work on one thing together, a row of a matrix or a block of a codec: an algorithm with barriers is written
// once, over a group, and runs in a warp or a block of the device (row_kernels.cuh) as well as on the host, with one thread
// or with several.

#include <causeway/config/config.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// `sum` and `largest` give every thread the same bits, for the same values and the same size of group every time. They
/// wait for the whole group, as `sync` does, so all its threads must call them, in the same order; what a thread wrote
/// before is seen by all others after. `largest` takes no NaN. `before` is the sum
/// over the threads of lower rank. `room` are 64 values that the group shares.
template <class G>
concept Group = requires(G& g, float f, double d, std::int32_t i) {
  { g.rank() } -> std::same_as<int>;
  { g.size() } -> std::same_as<int>;
  { g.sum(f) } -> std::same_as<float>;
  { g.sum(d) } -> std::same_as<double>;
  { g.sum(i) } -> std::same_as<std::int32_t>;
  { g.largest(f) } -> std::same_as<float>;
  { g.largest(i) } -> std::same_as<std::int32_t>;
  { g.before(i) } -> std::same_as<std::int32_t>;
  { g.room() } -> std::same_as<float*>;
  g.sync();
};

/// A group of one thread.
class lone_group {
 public:
  [[nodiscard]] CAUSEWAY_HD static int rank() { return 0; }
  [[nodiscard]] CAUSEWAY_HD static int size() { return 1; }
  template <class T>
  CAUSEWAY_HD static T sum(T v) {
    return v;
  }
  template <class T>
  CAUSEWAY_HD static T largest(T v) {
    return v;
  }
  [[nodiscard]] CAUSEWAY_HD static std::int32_t before(std::int32_t) { return 0; }
  CAUSEWAY_HD static void sync() {}
  [[nodiscard]] CAUSEWAY_HD float* room() { return room_; }

 private:
  float room_[64] = {};
};
static_assert(Group<lone_group>);

namespace detail {

/// Calls f(i, width) with this thread's share of [0, count): packs of N, then what is left one by one. A thread gets the
/// same elements each time, so it may read again what it wrote without waiting for others. `width` is an
/// integral_constant.
template <int N, class G, class F>
CAUSEWAY_HD void for_packs(const G& g, std::int64_t count, F&& f) {
  const std::int64_t whole = count / N * N;
  for (std::int64_t i = std::int64_t{g.rank()} * N; i < whole; i += std::int64_t{g.size()} * N) {
    f(i, std::integral_constant<int, N>{});
  }
  if constexpr (N > 1) {
    for (std::int64_t i = whole + g.rank(); i < count; i += g.size()) f(i, std::integral_constant<int, 1>{});
  }
}

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_GROUP_HPP
