// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ANY_ROUTER_HPP
#define CAUSEWAY_STAGE_ANY_ROUTER_HPP

// A router that is chosen while the program runs: one type for all of them, so that what routes is no template.

#include <causeway/config/config.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/stage/routing.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

/// Holds a router of any type that can be copied; a copy goes on from the same state. What is moved from may only be
/// assigned to. Cost of a choice: one indirect call more.
class any_router {
 public:
  template <class R>
    requires(!std::same_as<R, any_router> && Router<R> && std::copyable<R>)
  any_router(R router) : it_{std::make_unique<holder<R>>(std::move(router))} {}
  any_router(const any_router& other) : it_{other.it_->copy()} {}
  any_router(any_router&&) noexcept = default;
  any_router& operator=(any_router other) noexcept {
    it_ = std::move(other.it_);
    return *this;
  }
  ~any_router() = default;

  void begin(const step_size& size, const roster& known) { it_->begin(size, known); }
  [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch) {
    return it_->choose(known, stage, micro_batch);
  }
  [[nodiscard]] bool runs(const step_size& size, std::uint32_t stage, std::uint32_t micro_batch) const {
    return it_->runs(size, stage, micro_batch);
  }

 private:
  struct interface {
    virtual ~interface() = default;
    [[nodiscard]] virtual std::unique_ptr<interface> copy() const = 0;
    virtual void begin(const step_size& size, const roster& known) = 0;
    [[nodiscard]] virtual net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch) = 0;
    [[nodiscard]] virtual bool runs(const step_size& size, std::uint32_t stage, std::uint32_t micro_batch) const = 0;
  };
  template <class R>
  struct holder final : interface {
    explicit holder(R r) : router{std::move(r)} {}
    [[nodiscard]] std::unique_ptr<interface> copy() const override { return std::make_unique<holder>(router); }
    void begin(const step_size& size, const roster& known) override { router.begin(size, known); }
    [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch) override {
      return router.choose(known, stage, micro_batch);
    }
    [[nodiscard]] bool runs(const step_size& size, std::uint32_t stage, std::uint32_t micro_batch) const override {
      return router.runs(size, stage, micro_batch);
    }
    R router;
  };

  std::unique_ptr<interface> it_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#endif  // CAUSEWAY_STAGE_ANY_ROUTER_HPP
