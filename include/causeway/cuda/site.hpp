// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_SITE_HPP
#define CAUSEWAY_CUDA_SITE_HPP

// What a site of devices needs besides NCCL itself: an end to waiting, and the way of its id to all members. Written over
// the few calls that NCCL makes (nccl.cuh), so that the tests can make them late, wrong or never without a device.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/collective/site.hpp>
#include <causeway/collective/transport_site.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Whether what was started is done.
enum class progress : bool { under_way, done };

/// Calls that start one operation each, in place and on all members, and return at once; `poll` says how it is getting on,
/// or why it failed; `answer` is what the last start_all_of found. `abort` ends whatever is under way, and all use: it may
/// be called more than once.
template <class L>
concept SiteLine = Movable<L> && requires(L& l, const L& c, float* x, std::size_t count, std::uint32_t from, bool mine) {
  { c.size() } -> std::same_as<std::uint32_t>;
  { c.rank() } -> std::same_as<std::uint32_t>;
  { l.start_mean(x, count) } -> std::same_as<result<void>>;
  { l.start_broadcast(from, x, count) } -> std::same_as<result<void>>;
  { l.start_all_of(mine) } -> std::same_as<result<void>>;
  { l.poll() } -> std::same_as<result<progress>>;
  { l.answer() } -> std::same_as<result<bool>>;
  { l.abort() } -> std::same_as<void>;
};

/// Waits until `poll()` says done, or fails, or `patience` has passed: errc::timeout. Looks often at first, since most
/// operations take less than the host needs to fall asleep.
template <class Poll>
[[nodiscard]] result<void> wait_for(any_clock& clock, duration patience, Poll&& poll) {
  constexpr int eager = 1000;
  const time_point begin = clock.now();
  for (int looks = 0;; ++looks) {
    CAUSEWAY_ASSIGN(const progress now, poll());
    if (now == progress::done) return {};
    if (clock.now() - begin >= patience) {
      return fail(errc::timeout, "site",
                  "a member of the site did not come within " + std::to_string(static_cast<long>(seconds(patience))) +
                      " s; it is lost or far behind");
    }
    if (looks < eager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
  }
}

/// A site over a line. The first error ends it, since members no longer agree on what comes next: the line is aborted, and
/// every later operation gives that error. Open another one, with all members, to go on.
template <SiteLine L>
class watched_site final : public collective::site {
 public:
  watched_site(L line, duration patience, any_clock clock = {})
      : line_{std::move(line)}, patience_{patience}, clock_{std::move(clock)} {}

  [[nodiscard]] std::uint32_t size() const override { return line_.size(); }
  [[nodiscard]] std::uint32_t rank() const override { return line_.rank(); }

  [[nodiscard]] result<void> mean(std::span<float> data) override {
    return carry_out([&] { return line_.start_mean(data.data(), data.size()); });
  }
  [[nodiscard]] result<void> broadcast(std::uint32_t from, std::span<float> data) override {
    CAUSEWAY_EXPECT(from < size());
    return carry_out([&] { return line_.start_broadcast(from, data.data(), data.size()); });
  }
  [[nodiscard]] result<bool> all_of(bool mine) override {
    CAUSEWAY_TRY(carry_out([&] { return line_.start_all_of(mine); }));
    auto all = line_.answer();
    if (!all) (void)ended(all.error());
    return all;
  }

 private:
  template <class F>
  result<void> carry_out(F&& start) {
    if (first_) return *first_;
    const result<void> started = start();
    if (!started) return ended(started.error());
    const result<void> waited = wait_for(clock_, patience_, [this] { return line_.poll(); });
    if (!waited) return ended(waited.error());
    return {};
  }
  result<void> ended(const error& why) {
    line_.abort();
    first_ = why;
    return why;
  }

  L line_;
  duration patience_;
  any_clock clock_;
  std::optional<error> first_;
};

/// NCCL's name of a communicator, as bytes.
using site_id = std::array<std::byte, 128>;

/// The id that the first member made, on all members, if all can open a site; `mine` is the id of the first member,
/// anything of the others, or why this one cannot. All members get an error where one does. Blocks until all have come, at
/// most until the deadline. An id names an address that NCCL will connect to: members of a site trust each other.
[[nodiscard]] inline result<site_id> agree_on_id(net::any_transport& over, const std::vector<net::peer_index>& members,
                                                 const result<site_id>& mine, time_point deadline) {
  const net::message_id id{.channel = collective::channels::site};
  collective::collective_options options;
  options.deadline = deadline;
  collective::transport_site words{over, members, id, options};
  const auto all = words.all_of(mine.has_value());
  if (!mine) return mine.error();
  if (!all) return all.error();
  if (!*all) {
    return fail(errc::unsupported, "site", "another member cannot take part; its own error says why");
  }
  site_id agreed = *mine;
  collective::group_view group{over, members};
  const net::message_id named{.channel = collective::channels::site + 12};
  CAUSEWAY_TRY(collective::broadcast(group, named, 0, std::span<std::byte>{agreed}, options));
  return agreed;
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_SITE_HPP
