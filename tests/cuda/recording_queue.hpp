// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_RECORDING_QUEUE_HPP
#define CAUSEWAY_TESTS_CUDA_RECORDING_QUEUE_HPP

// A queue of the host that records as a CUDA graph does: while it records, nothing runs and the host may not wait; what it
// was given, bodies by value and addresses as they were, runs at each replay. Memory of a recording is lent again within a
// pass as soon as a lease ends, begins as NaN at every replay, and is nobody else's.

#include <causeway/cuda/ops/queue_recording.hpp>

#include "cuda/host_queue.hpp"

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace causeway_test {

struct recording_report {
  bool on = true;
  int recordings = 0, replays = 0, dropped = 0;
  std::size_t steps = 0;       ///< of the last replay
  std::size_t taken_anew = 0;  ///< pieces that recordings had to reserve
  int fail_replay = -1;        ///< the replay that fails
  bool refuse = false;         ///< whether a recording fails at its end
};

/// Pieces by size, most recently used first.
class piece_cache {
 public:
  explicit piece_cache(std::shared_ptr<recording_report> report) : report_{std::move(report)} {}
  void* take(std::size_t bytes) {
    auto& waiting = free_[bytes];
    if (waiting.empty()) {
      ++report_->taken_anew;
      all_.emplace_back(bytes);
      return all_.back().data();
    }
    void* const piece = waiting.back();
    waiting.pop_back();
    return piece;
  }
  void give(void* piece, std::size_t bytes) { free_[bytes].push_back(piece); }

 private:
  std::shared_ptr<recording_report> report_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::vector<causeway::aligned_buffer<std::byte>> all_;
};

class recording_queue : public host_queue {
 public:
  struct kept {
    std::shared_ptr<piece_cache> memory;
    std::shared_ptr<recording_report> report;
    causeway::cuda::recording_room room;
    causeway::aligned_buffer<std::byte> room_memory;
    std::vector<std::function<result(host_queue&)>> steps;
    bool has_number = false;

    kept(std::shared_ptr<piece_cache> m, std::shared_ptr<recording_report> r)
        : memory{std::move(m)}, report{std::move(r)} {}
    kept(kept&&) = default;
    ~kept() {
      if (report != nullptr) ++report->dropped;
    }
  };
  using recording = kept;

  recording_queue(std::shared_ptr<queue_report> report, std::shared_ptr<recording_report> recorded)
      : host_queue{std::move(report)}, recorded_{std::move(recorded)} {}

  template <class Body>
  result elements(std::int64_t count, const Body& body) {
    return later([=](host_queue& q) { return q.elements(count, body); });
  }
  template <class Body>
  result rows(std::int64_t items, std::int64_t columns, const Body& body) {
    return later([=](host_queue& q) { return q.rows(items, columns, body); });
  }
  template <class Body>
  result groups(std::int64_t items, const Body& body) {
    return later([=](host_queue& q) { return q.groups(items, body); });
  }
  template <class Body>
  result rows_with_memory(std::int64_t items, std::int64_t columns, const Body& body) {
    return later([=](host_queue& q) { return q.rows_with_memory(items, columns, body); });
  }
  template <int Blocks, class Body>
  result tiles(const Body& body) {
    return later([=](host_queue& q) { return q.template tiles<Blocks>(body); });
  }
  result sort_pairs(const std::int32_t* keys, const std::int32_t* values, std::int32_t* sorted_keys,
                    std::int32_t* sorted_values, std::int64_t count, int bits) {
    return later([=](host_queue& q) { return q.sort_pairs(keys, values, sorted_keys, sorted_values, count, bits); });
  }
  template <class In, class Out>
  result multiply(const causeway::cuda::matmul_args<In, Out>& args) {
    return later([=](host_queue& q) { return q.multiply(args); });
  }
  result copy(void* to, const void* from, std::size_t bytes) {
    return later([=](host_queue& q) { return q.copy(to, from, bytes); });
  }
  result copy_in(void* to, const void* from, std::size_t bytes) {
    if (!recording_) return host_queue::copy_in(to, from, bytes);
    CAUSEWAY_ASSIGN(const void* const staged, current_->room.find(from, bytes));
    return copy(to, staged, bytes);
  }
  result copy_out(void* to, const void* from, std::size_t bytes) {
    if (!recording_) return host_queue::copy_out(to, from, bytes);
    if (bytes != sizeof(double) || std::exchange(current_->has_number, true)) {
      return causeway::fail(causeway::errc::unsupported, "recording queue", "more than one number");
    }
    return copy(current_->room.number(), from, bytes);
  }
  result fetch(const void* p, std::size_t bytes) { return recording_ ? not_here() : host_queue::fetch(p, bytes); }
  result begin_copy_out(int lane, const void* from, std::size_t bytes) {
    return recording_ ? not_here() : host_queue::begin_copy_out(lane, from, bytes);
  }
  result wait() { return recording_ ? result{} : host_queue::wait(); }
  void* reserve(std::size_t bytes) {
    if (recording_) throw std::bad_alloc{};  // as a capture does
    return host_queue::reserve(bytes);
  }

  template <class T>
  class lease {
   public:
    lease(std::shared_ptr<piece_cache> from, std::size_t count) : from_{std::move(from)}, bytes_{count * sizeof(T)} {
      if (from_ == nullptr) own_ = causeway::aligned_buffer<T>{count};
      at_ = from_ == nullptr ? own_.data() : static_cast<T*>(from_->take(bytes_));
    }
    lease(lease&& other) noexcept
        : from_{std::exchange(other.from_, nullptr)}, bytes_{other.bytes_}, own_{std::move(other.own_)}, at_{other.at_} {}
    ~lease() {
      if (from_ != nullptr) from_->give(at_, bytes_);
    }
    [[nodiscard]] T* data() const { return at_; }

   private:
    std::shared_ptr<piece_cache> from_;
    std::size_t bytes_;
    causeway::aligned_buffer<T> own_;
    T* at_;
  };
  template <class T>
  causeway::result<lease<T>> take(std::size_t count) {
    lease<T> taken{current_ == nullptr ? nullptr : current_->memory, count};
    const auto spoil = [at = static_cast<void*>(taken.data()), bytes = count * sizeof(T)](host_queue&) {
      std::memset(at, 0xFF, bytes);
      return result{};
    };
    CAUSEWAY_TRY(later(spoil));
    return causeway::result<lease<T>>{std::move(taken)};
  }

  [[nodiscard]] bool records() const { return recorded_->on; }
  causeway::result<recording> make_recording() {
    return causeway::result<recording>{recording{std::make_shared<piece_cache>(recorded_), recorded_}};
  }
  result rehearse(recording& r) {
    current_ = &r;
    return {};
  }
  result record(recording& r, const causeway::cuda::pass_inputs& in) {
    current_ = &r;
    recording_ = true;
    changing_ = in.seed;
    r.room_memory = causeway::aligned_buffer<std::byte>{causeway::cuda::recording_room::bytes_for(in)};
    r.room = causeway::cuda::recording_room{r.room_memory.data(), in};
    anew_ = recorded_->taken_anew;
    return {};
  }
  result end_recording() {
    current_ = nullptr;
    if (!std::exchange(recording_, false)) return {};
    if (recorded_->refuse || recorded_->taken_anew != anew_) {  // the device would have been asked for memory
      return causeway::fail(causeway::errc::unsupported, "recording queue", "refused");
    }
    ++recorded_->recordings;
    return {};
  }
  result replay(recording& r, const causeway::cuda::pass_inputs& in, double* found) {
    if (recorded_->replays++ == recorded_->fail_replay) {
      return causeway::fail(causeway::errc::device_lost, "recording queue", "told to fail");
    }
    CAUSEWAY_TRY(
        r.room.fill(in, [&](void* to, const void* host, std::size_t n) { return host_queue::copy_in(to, host, n); }));
    for (const auto& step : r.steps) CAUSEWAY_TRY(step(*this));
    recorded_->steps = r.steps.size();
    CAUSEWAY_TRY(host_queue::copy_out(found, r.room.number(), sizeof *found));
    return host_queue::wait();
  }
  [[nodiscard]] const std::uint64_t* changing_seed(std::uint64_t seed) const {
    return recording_ && seed == changing_ ? current_->room.seed() : nullptr;
  }

 private:
  static result not_here() { return causeway::fail(causeway::errc::unsupported, "recording queue", "while recording"); }

  template <class F>
  result later(F&& f) {
    if (!recording_) return f(static_cast<host_queue&>(*this));
    current_->steps.emplace_back(std::forward<F>(f));
    return {};
  }

  std::shared_ptr<recording_report> recorded_;
  recording* current_ = nullptr;  ///< whose memory is lent
  bool recording_ = false;
  std::uint64_t changing_ = 0;
  std::size_t anew_ = 0;
};
static_assert(causeway::cuda::RecordingQueue<recording_queue>);

inline std::shared_ptr<causeway::cuda::engine> recording_engine(std::shared_ptr<recording_report> recorded,
                                                                std::shared_ptr<queue_report> report = {}) {
  if (report == nullptr) report = std::make_shared<queue_report>();
  return std::make_shared<causeway::cuda::compute<recording_queue>>(
      recording_queue{std::move(report), std::move(recorded)});
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_RECORDING_QUEUE_HPP
