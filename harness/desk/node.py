def add(*a): raise NotImplementedError
