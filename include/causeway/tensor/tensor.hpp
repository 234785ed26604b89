// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TENSOR_TENSOR_HPP
#define CAUSEWAY_TENSOR_TENSOR_HPP

// A contiguous row-major tensor: a handle to pooled memory, or a view of memory that somebody else owns (a parameter, a
// received activation). Copying a handle shares the numbers; `unique()` says whether they may be overwritten.

#include <causeway/config/config.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Handle to numbers of one dtype. Not safe to copy or release from two threads at once.
class tensor {
 public:
  tensor() = default;
  tensor(const tensor&) = default;
  tensor(tensor&& other) noexcept
      : memory_{std::move(other.memory_)},
        data_{std::exchange(other.data_, nullptr)},
        shape_{other.shape_},
        type_{other.type_} {}
  tensor& operator=(tensor other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(shape_, other.shape_);
    std::swap(type_, other.type_);
    return *this;
  }
  ~tensor() = default;

  /// Memory from `pool`, not initialised. Throws std::bad_alloc.
  [[nodiscard]] static tensor make(buffer_pool& pool, dtype type, tensor_shape shape) {
    tensor t;
    t.memory_ = pool.acquire(static_cast<std::size_t>(shape.count()) * size_of(type));
    t.data_ = t.memory_.data();
    t.shape_ = shape;
    t.type_ = type;
    return t;
  }

  /// A view of memory that must stay where it is while the view is used.
  template <class T>
  [[nodiscard]] static tensor borrow(T* data, tensor_shape shape) noexcept {
    tensor t;
    t.data_ = data;
    t.shape_ = shape;
    t.type_ = dtype_of<T>;
    return t;
  }

  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  [[nodiscard]] const tensor_shape& shape() const noexcept { return shape_; }
  [[nodiscard]] dtype type() const noexcept { return type_; }
  [[nodiscard]] std::int64_t count() const noexcept { return shape_.count(); }
  [[nodiscard]] std::int64_t rows() const noexcept { return shape_.rows(); }
  [[nodiscard]] std::int64_t columns() const noexcept { return shape_.columns(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(count()) * size_of(type_); }

  /// The numbers; `T` must be the element type.
  template <class T>
  [[nodiscard]] T* data() const noexcept {
    CAUSEWAY_EXPECT(data_ == nullptr || dtype_of<T> == type_);
    return static_cast<T*>(data_);
  }

  [[nodiscard]] void* raw() const noexcept { return data_; }

  template <class T>
  [[nodiscard]] std::span<T> span() const noexcept {
    return {data<T>(), data_ == nullptr ? 0 : static_cast<std::size_t>(count())};
  }

  /// Whether this handle alone owns its memory. A view never does.
  [[nodiscard]] bool unique() const noexcept { return memory_.unique(); }

  /// The same numbers with other dimensions.
  [[nodiscard]] tensor reshaped(tensor_shape shape) const& { return tensor{*this}.reshaped_in_place(shape); }
  [[nodiscard]] tensor reshaped(tensor_shape shape) && { return std::move(reshaped_in_place(shape)); }

  void reset() noexcept { *this = tensor{}; }

 private:
  tensor& reshaped_in_place(tensor_shape shape) {
    CAUSEWAY_EXPECT(shape.count() == shape_.count());
    shape_ = shape;
    return *this;
  }

  pooled_buffer memory_;
  void* data_ = nullptr;
  tensor_shape shape_;
  dtype type_ = dtype::f32;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_TENSOR_HPP
