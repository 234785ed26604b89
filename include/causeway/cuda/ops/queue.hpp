// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_QUEUE_HPP
#define CAUSEWAY_CUDA_OPS_QUEUE_HPP

// What carries out bodies, in the order in which they are given: a stream of the device (queue.cuh), or the host in tests.
// Operations that take several bodies and memory between them are written once, over a queue.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/embedding_bodies.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Starts work and returns; errors are what starting reports. One thread at a time.
///   elements(count, body)                  an element body or a pack body (pack.hpp), over [0, count)
///   rows(items, columns, body)             body.run<N>(group, item), a block of threads for each item
///   rows_with_memory(items, columns, body) the same with body.working_bytes() of memory for each block
///   groups(items, body)                    body.run<N>(group, item), a warp for each item
///   tiles<Blocks>(body)                    body.run(warp, item, memory), a block of warps for each item (warp.hpp)
///   take<T>(count)                         memory, not initialised: a result of a lease, which has `data()`
template <class Q>
concept Queue = requires(Q& q, std::int64_t n, const count_body& body) {
  { q.elements(n, body) } -> std::same_as<result<void>>;
  q.template take<float>(std::size_t{});
};

/// One with sort_pairs(keys, values, sorted_keys, sorted_values, count, bits): stable, by the low `bits` of the keys.
template <class Q>
concept SortingQueue = Queue<Q> && requires(Q& q, const std::int32_t* from, std::int32_t* to) {
  { q.sort_pairs(from, from, to, to, std::int64_t{}, int{}) } -> std::same_as<result<void>>;
};

/// One that takes bytes from the host.
template <class Q>
concept InwardQueue = Queue<Q> && requires(Q& q, void* to, const void* from, std::size_t bytes) {
  { q.copy_in(to, from, bytes) } -> std::same_as<result<void>>;  // the host's bytes may change afterwards
};

/// One that exchanges bytes with the host. It has two lanes, 0 and 1, in which copies to the host run beside what is given
/// to the queue after them.
template <class Q>
concept TransferQueue = InwardQueue<Q> && requires(Q& q, void* to, const void* from, std::size_t bytes, int lane) {
  { q.copy_out(to, from, bytes) } -> std::same_as<result<void>>;          // waits
  { q.begin_copy_out(lane, from, bytes) } -> std::same_as<result<void>>;  // `from` stays as it is until the end
  { q.end_copy_out(lane) } -> std::same_as<result<const std::byte*>>;     // waits; there until the lane's next begin
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_QUEUE_HPP
