// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_TENSOR_MAILBOX_HPP
#define CAUSEWAY_PARALLEL_TENSOR_MAILBOX_HPP

// Tensors on their way over a fabric whose peers come and go: any number of sends and receives, none of which blocks, and
// what has come of them. What a tensor is for is the caller's.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/scoped_operation.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Bytes that several may keep.
using shared_bytes = std::shared_ptr<const std::vector<std::byte>>;

/// For the trainer's thread, without the fabric's lock; `any_done` with it.
template <class What>
class tensor_mailbox {
 public:
  explicit tensor_mailbox(net::fabric& fabric) : fabric_{fabric} {}
  tensor_mailbox(const tensor_mailbox&) = delete;
  tensor_mailbox& operator=(const tensor_mailbox&) = delete;

  struct arrival {
    net::peer_index from = 0;
    What what;
    shared_bytes bytes;
  };

  void send(net::peer_index to, const net::message_id& id, shared_bytes bytes) {
    net::scoped_operation op{fabric_, fabric_.send(to, id, *bytes)};
    sends_.push_back({to, std::move(bytes), std::move(op)});
  }

  /// `most`: bytes of the tensor, or more.
  void expect(net::peer_index from, const net::message_id& id, What what, std::size_t most) {
    auto room = std::make_shared<std::vector<std::byte>>(most);
    net::scoped_operation op{fabric_, fabric_.receive(from, id, *room)};
    receives_.push_back({from, std::move(what), std::move(room), std::move(op)});
  }

  /// What has come, whole. What broke is passed over, or told in `broken`: its connection is down, its sender gave it up,
  /// or it was too long.
  [[nodiscard]] std::vector<arrival> collect(std::vector<What>* broken = nullptr) {
    std::vector<arrival> all;
    std::erase_if(sends_, [](sending& s) {
      if (!s.op.done()) return false;
      (void)s.op.wait(no_deadline);
      return true;
    });
    std::erase_if(receives_, [&](receiving& r) {
      if (!r.op.done()) return false;
      const auto got = r.op.wait(no_deadline);
      if (!got && broken != nullptr) broken->push_back(std::move(r.what));
      if (!got) return true;
      r.room->resize(*got);
      all.push_back({r.from, std::move(r.what), std::move(r.room)});
      return true;
    });
    return all;
  }

  [[nodiscard]] bool any_done() const {
    return std::any_of(sends_.begin(), sends_.end(), [](const auto& s) { return s.op.done(); }) ||
           std::any_of(receives_.begin(), receives_.end(), [](const auto& r) { return r.op.done(); });
  }

  /// Sends to, and receives from, one peer that are under way.
  [[nodiscard]] std::size_t sends_to(net::peer_index to) const {
    return static_cast<std::size_t>(
        std::count_if(sends_.begin(), sends_.end(), [to](const auto& s) { return s.to == to; }));
  }
  [[nodiscard]] std::size_t receives() const noexcept { return receives_.size(); }
  /// Calls `f(from, what)` for every receive under way, the oldest first.
  template <class F>
  void each_expected(F&& f) const {
    for (const receiving& r : receives_) f(r.from, r.what);
  }

  /// Ends what is under way.
  void clear() {
    sends_.clear();
    receives_.clear();
  }

 private:
  struct sending {
    net::peer_index to = 0;
    shared_bytes bytes;
    net::scoped_operation op;
  };
  struct receiving {
    net::peer_index from = 0;
    What what;
    std::shared_ptr<std::vector<std::byte>> room;
    net::scoped_operation op;
  };

  net::fabric& fabric_;
  std::vector<sending> sends_;
  std::vector<receiving> receives_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_TENSOR_MAILBOX_HPP
