#include "fiber.hpp"

// Saves the callee-saved registers of the System V x86-64 ABI on the current stack, stores its pointer in *save, and
// continues on the stack `load`. The indirect jump keeps the return predictor out of it.
asm(R"(
.text
.globl simgpu_switch
.type simgpu_switch,@function
simgpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size simgpu_switch, .-simgpu_switch
)");
