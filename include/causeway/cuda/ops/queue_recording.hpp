// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_QUEUE_RECORDING_HPP
#define CAUSEWAY_CUDA_OPS_QUEUE_RECORDING_HPP

// A recording of what an engine over a queue is asked.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/recording.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// A queue that can keep what it is given instead of carrying it out. Between `record` and `end_recording` it starts
/// nothing, takes copies from the host as copies from a recording_room, the one number that is copied out as a copy to it,
/// and waits for nothing;
/// from `rehearse` or `record` to the end it lends memory of the recording's. `changing_seed` is where the seed will lie,
/// or null where it is a number like others.
template <class Q>
concept RecordingQueue = requires(Q& q, typename Q::recording& r, const pass_inputs& in, double* found,
                                  std::uint64_t seed) {
  { q.records() } -> std::same_as<bool>;
  { q.make_recording() } -> std::same_as<result<typename Q::recording>>;
  { q.rehearse(r) } -> std::same_as<result<void>>;
  { q.record(r, in) } -> std::same_as<result<void>>;
  { q.end_recording() } -> std::same_as<result<void>>;
  { q.replay(r, in, found) } -> std::same_as<result<void>>;  // waits
  { q.changing_seed(seed) } -> std::same_as<const std::uint64_t*>;
};

/// `run(f)` calls f unless an error waits to be told, and keeps its error: engine_base's.
template <class Q, class Engine>
class queue_recording final : public recording {
 public:
  queue_recording(Engine& engine, Q& queue, typename Q::recording kept)
      : engine_{engine}, queue_{queue}, kept_{std::move(kept)} {}

  void rehearse() override {
    engine_.run([&] { return queue_.rehearse(kept_); });
  }
  void record(const pass_inputs& in) override {
    engine_.run([&] { return queue_.record(kept_, in); });
  }
  [[nodiscard]] result<void> end() override { return queue_.end_recording(); }
  [[nodiscard]] double replay(const pass_inputs& in) override {
    double found = std::numeric_limits<double>::quiet_NaN();
    engine_.run([&] { return queue_.replay(kept_, in, &found); });
    return found;
  }

 private:
  Engine& engine_;
  Q& queue_;
  typename Q::recording kept_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_QUEUE_RECORDING_HPP
